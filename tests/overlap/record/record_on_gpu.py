#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records real CUDA programs: checks the recordings, and prints what recording costs.

    record_on_gpu.py --tool build/cuda/tools/overlap/msstream-overlap [--repeats 5]

Ends with status 77, which ctest counts as skipped, if there is no GPU or no nvcc.
"""
import argparse
import collections
import gzip
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TORCH = """
import sys, time, torch
torch.manual_seed(0)
layers = [torch.nn.Linear(256, 256) for _ in range(16)]
model = torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.ReLU())]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs = torch.randn(64, 256, device="cuda")
def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
steps(50)
begin = time.perf_counter()
steps(300)
print((time.perf_counter() - begin) * 1e9 / 300)
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def last_number(output):
    return float(output.strip().splitlines()[-1])


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed with {result.returncode}:\n{result.stderr}")
    return last_number(result.stdout)


def read(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def check(recording, name, failures):
    """Joins what must join."""
    events = recording["traceEvents"]
    calls = {}
    kinds = collections.Counter()
    for event in events:
        if event["ph"] != "X":
            continue
        kinds[event.get("cat")] += 1
        if event["cat"] in ("cuda_runtime", "cuda_driver"):
            calls[event["args"]["correlation"]] = event
    work = [e for e in events if e["ph"] == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    orphans = [e for e in work if e["args"]["correlation"] not in calls and "graph node id" not in e["args"]]
    early = [e for e in work if e["args"]["correlation"] in calls
             and e["ts"] < calls[e["args"]["correlation"]]["ts"] - 5]
    waits = [e for e in events if e.get("cat") == "cuda_sync" and e["args"]["cuda_sync_kind"] == "Stream Wait Event"]
    records = [e["args"]["wait_on_cuda_event_record_corr_id"] for e in waits]
    end = recording["msstream_overlap_end"]
    print(f"  {name}: {dict(kinds)}, dropped {end['dropped_records']}, without times "
          f"{end['activities_without_times']}, recorder's CPU {end['recorder_cpu_seconds']:.2f} s, "
          f"CUPTI's overhead {end['overhead_ns'] / 1e6:.1f} ms")
    if not recording["deviceProperties"]:
        failures.append(f"{name}: no device properties")
    if not work:
        failures.append(f"{name}: no work of a device")
    if orphans:
        failures.append(f"{name}: {len(orphans)} of {len(work)} activities have no call, such as {orphans[0]}")
    if early:
        failures.append(f"{name}: {len(early)} activities begin 5 us or more before their call: {early[0]}")
    if any(record < 0 for record in records) or len(set(records)) != len(records):
        failures.append(f"{name}: waits do not name one record each: {records}")
    if not end["complete"]:
        failures.append(f"{name}: {end['reason']}")
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--launches", type=int, default=200_000)
    options = parser.parse_args()
    if subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode \
            if shutil.which("nvidia-smi") else True:
        skip("there is no GPU")
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not pathlib.Path(nvcc).exists():
        skip("there is no nvcc")
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = {}
        for runtime in ("static", "shared"):
            program = folder / f"launches_{runtime}"
            subprocess.run([nvcc, "-std=c++17", "-O2", "-arch=native", f"-cudart={runtime}",
                            str(HERE / "launches.cu"), "-o", str(program)], check=True)
            programs[f"launches, {runtime} runtime"] = ([program, str(options.launches), "eager"], [], 1000.0)
        graph = [folder / "launches_static", str(options.launches), "graph"]
        programs["graphs, whole"] = (graph, [], None)
        programs["graphs, their nodes"] = (graph, ["--graph-nodes"], None)
        try:
            import torch
            torch_works = torch.cuda.is_available()
        except ImportError:
            torch_works = False
        if torch_works:
            script = folder / "eager.py"
            script.write_text(TORCH)
            programs["PyTorch, eager"] = ([sys.executable, script], [], None)
        else:
            print("PyTorch is left out: it is not installed")
        limits = {"graphs, whole": 1.05, "graphs, their nodes": 2.0, "PyTorch, eager": 1.05}
        for name, (command, arguments, most_ns) in programs.items():
            file = folder / "recording.json.gz"
            tool = [options.tool, "run", "--output", file, "--force", *arguments, "--", *command]
            plain, recorded = [], []
            for _ in range(options.repeats):  # in turn, so that both meet the same machine
                plain.append(run(command))
                recorded.append(run(tool))
            before, after = statistics.median(plain), statistics.median(recorded)
            kinds = check(read(file), name, failures)
            if name.startswith("launches") and kinds["kernel"] != options.launches + 1003:
                failures.append(f"{name}: {kinds['kernel']} kernels instead of {options.launches + 1003}")
            print(f"{name}: {before:.0f} ns without, {after:.0f} ns with, +{after - before:.0f} ns, "
                  f"{after / before:.3f}x (spread {min(recorded):.0f} to {max(recorded):.0f} ns)")
            if most_ns is not None and after - before > most_ns:
                failures.append(f"{name}: a launch costs {after - before:.0f} ns more, the goal is {most_ns:.0f}")
            if name in limits and after > before * limits[name]:
                failures.append(f"{name}: {after / before:.3f}x, the goal is {limits[name]}x")
    for failure in failures:
        print("FAILED", failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
