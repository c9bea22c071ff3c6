#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records real CUDA programs: checks the recordings, and prints what recording costs.

    record_on_gpu.py --tool build/cuda/tools/overlap/msstream-overlap [--repeats 5]
    record_on_gpu.py --tool build/cuda/tools/overlap/msstream-overlap --table [--seconds 60]
    record_on_gpu.py --tool build/cuda/tools/overlap/msstream-overlap --pairs [--seconds 150]

With --table, it measures PyTorch's eager loop and then launches and graphs with less recorded,
each in turn, until the time is over, and prints one table. With --pairs, it measures a few ways in rounds, each beside
a run that is not recorded, and prints the medians of the differences within rounds, which a machine that gets slower
and faster does not change. Nothing is checked.

Ends with status 77, which ctest counts as skipped, if there is no GPU or no nvcc.
"""
import argparse
import collections
import gzip
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

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
rounds = []
for _ in range(5):
    begin = time.perf_counter()
    steps(60)
    rounds.append((time.perf_counter() - begin) * 1e9 / 60)
print(sorted(rounds)[2])
"""
TORCH_SECONDS = 20
# How to record, as text, and the value of MSSTREAM_OVERLAP_WITHOUT. The most telling ones come first.
WAYS = [
    ("as it is", ""),
    ("kernels alone", "copy+fill+runtime+driver+sync+event+overhead+graph+stream"),
    ("calls alone", "kernel+copy+fill+driver+sync+event+overhead+graph+stream"),
    ("without driver calls", "driver"),
    ("without launches' calls", "launch-calls"),
    ("without synchronisations and events", "sync+event"),
    ("without overheads", "overhead"),
    ("without whole graphs", "graph"),
    ("without streams", "stream"),
]
# The ways of --pairs: of launches, of graphs and of PyTorch.
PAIRS = {
    "a launch": [("as it is", ""), ("kernels alone", "copy+fill+runtime+driver+sync+event+overhead+graph+stream")],
    "a graph's kernel": [("as it is", ""),
                         ("whole graphs alone", "kernel+copy+fill+runtime+driver+sync+event+overhead+stream")],
    "PyTorch's eager step": [("as it is", "")],
}
TORCH_STEPS = 350  # of TORCH, in total
FIRST_WAYS = 5  # of launches; the others follow those of graphs
# The ways that also run with the static runtime, and with graphs.
STATIC_WAYS = ("as it is", "kernels alone")
GRAPH_WAYS = ("as it is", "kernels alone", "without launches' calls", "without whole graphs", "without overheads")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def last_number(output):
    return float(output.strip().splitlines()[-1])


def run(command, environment=None):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(environment or {})})
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


def build(nvcc, folder):
    """Compiles the launches once, and links them with both runtimes."""
    subprocess.run([nvcc, "-std=c++17", "-O2", "-arch=native", "-c", HERE / "launches.cu", "-o",
                    folder / "launches.o"], check=True)
    for runtime in ("static", "shared"):
        subprocess.run([nvcc, f"-cudart={runtime}", folder / "launches.o", "-o", folder / f"launches_{runtime}"],
                       check=True)


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"],
                          stderr=subprocess.DEVNULL).returncode == 0


def row(name, ns, before):
    middle, least, most = statistics.median(ns), min(ns), max(ns)
    print(f"| {name} | {middle:.0f} | {least:.0f} to {most:.0f} | {len(ns)} | {middle - before:+.0f} | "
          f"{middle / before:.3f}x |", flush=True)


def print_table(options, nvcc, folder):
    """Measures each way to record, and prints a table in Markdown."""
    begin = time.monotonic()
    left = lambda limit: begin + limit - time.monotonic()
    head = "| program, recorded | ns | spread | runs | more | |\n| --- | --- | --- | --- | --- | --- |"
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         stdout=subprocess.PIPE, text=True).stdout.strip(), os.cpu_count(), "processors")
    file = folder / "recording.json.gz"

    def recorded(command, without, *arguments):
        return run([options.tool, "run", "--output", file, "--force", *arguments, "--", *command],
                   {"MSSTREAM_OVERLAP_WITHOUT": without} if without else None)

    if has_torch():
        script = folder / "eager.py"
        script.write_text(TORCH)
        command, plain, with_it, longest = [sys.executable, script], [], [], 0
        while not with_it or left(TORCH_SECONDS) > longest:
            started = time.monotonic()
            plain.append(run(command))
            with_it.append(recorded(command, ""))
            longest = max(longest, time.monotonic() - started)
        print(head)
        row("PyTorch's eager step, not recorded", plain, statistics.median(plain))
        row("PyTorch's eager step, as it is", with_it, statistics.median(plain))
    else:
        print("PyTorch is left out: it is not installed")
        print(head)
    build(nvcc, folder)
    count = str(options.launches // 4)
    shared, static = [folder / "launches_shared", count, "eager"], [folder / "launches_static", count, "eager"]
    graph = [folder / "launches_static", str(options.launches), "graph"]
    programs = {"a launch, shared runtime": (shared, []), "a launch, static runtime": (static, []),
                "a graph's kernel": (graph, []), "a graph's kernel, each recorded": (graph, ["--graph-nodes"])}
    of_shared, of_static, of_graph, of_nodes = programs
    ways = dict(WAYS)
    jobs = [(of_shared, way) for way in [None, *list(ways)[:FIRST_WAYS]]]
    jobs += [(of_static, way) for way in (None, *STATIC_WAYS)]
    jobs += [(of_graph, way) for way in (None, *GRAPH_WAYS)]
    jobs += [(of_nodes, way) for way in (None, "as it is")]
    jobs += [(of_shared, way) for way in list(ways)[FIRST_WAYS:]]
    results = {job: [] for job in jobs}
    # Each pass runs everything once, so that all meet the same machine.
    longest = 0
    while left(options.seconds) > longest:
        for name, way in jobs:
            if left(options.seconds) <= longest:
                break
            command, arguments = programs[name]
            started = time.monotonic()
            try:
                results[name, way].append(run(command) if way is None else recorded(command, ways[way], *arguments))
            except SystemExit as failure:  # CUPTI may not bear it
                print(f"{name}, {way}: {failure}")
            longest = max(longest, time.monotonic() - started)
    for (name, way), ns in sorted(results.items(), key=lambda item: list(programs).index(item[0][0])):
        if ns and results[name, None]:
            row(f"{name}, {way or 'not recorded'}", ns, statistics.median(results[name, None]))
        else:
            print(f"| {name}, {way or 'not recorded'} | not measured | | | | |")
    machine = subprocess.run(shared[:1] + ["1000", "eager"], stdout=subprocess.PIPE, text=True).stdout
    print("this machine, ns:", ", ".join(machine.split("\n")[:2]))


def describe_torch(recording):
    """Prints how much a step of PyTorch issues, so that what recording costs can be told for each launch."""
    counts, names = collections.Counter(), collections.Counter()
    for event in recording["traceEvents"]:
        if event["ph"] == "X":
            counts[event.get("cat")] += 1
            if event.get("cat") in ("cuda_runtime", "cuda_driver"):
                names[event["name"]] += 1
    print("a step of PyTorch:", ", ".join(f"{count / TORCH_STEPS:.1f} {kind}" for kind, count in counts.most_common()
                                          if count >= TORCH_STEPS))
    print("its calls:", ", ".join(f"{count / TORCH_STEPS:.1f} {name}" for name, count in names.most_common(10)))
    end = recording["msstream_overlap_end"]
    print(f"its recording: CUPTI's overhead {end['overhead_ns'] / 1e6:.1f} ms, the recorder's CPU "
          f"{end['recorder_cpu_seconds']:.2f} s, notes {end['notes']}", flush=True)


def print_pairs(options, nvcc, folder):
    """Measures the ways of PAIRS in rounds, and prints a table in Markdown."""
    begin = time.monotonic()
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         stdout=subprocess.PIPE, text=True).stdout.strip(), os.cpu_count(), "processors")
    build(nvcc, folder)
    programs = {"a launch": [folder / "launches_shared", str(options.launches // 2), "eager"],
                "a graph's kernel": [folder / "launches_static", str(options.launches), "graph"]}
    if has_torch():
        script = folder / "eager.py"
        script.write_text(TORCH)
        programs["PyTorch's eager step"] = [sys.executable, script]
    else:
        print("PyTorch is left out: it is not installed")
    file = folder / "recording.json.gz"
    rounds = {name: [] for name in programs}  # of each, the times by way, and None for not recorded
    longest = dict.fromkeys(programs, 0)
    # PyTorch takes most of the time: it runs in every third round.
    turn = 0
    while True:
        started_any = False
        for name, command in programs.items():
            if name.startswith("PyTorch") and turn % 3 != 0:
                continue
            if begin + options.seconds - time.monotonic() <= longest[name]:
                continue
            started, started_any = time.monotonic(), True
            times = {None: run(command)}
            for way, without in PAIRS[name][::-1 if turn % 2 else 1]:
                try:
                    times[way] = run([options.tool, "run", "--output", file, "--force", "--", *command],
                                     {"MSSTREAM_OVERLAP_WITHOUT": without} if without else None)
                except SystemExit as failure:  # CUPTI may not bear it
                    print(f"{name}, {way}: {failure}")
                if name.startswith("PyTorch") and not without and not rounds[name]:
                    describe_torch(read(file))
            rounds[name].append(times)
            longest[name] = max(longest[name], time.monotonic() - started)
        turn += 1
        if not started_any or turn > 3 * options.repeats:
            break
    print("| program, recorded | without, ns | more, ns | spread | ratio | rounds |\n| --- | --- | --- | --- | --- | --- |")
    for name, of_program in rounds.items():
        for way, _ in PAIRS[name]:
            pairs = [(times[None], times[way]) for times in of_program if way in times]
            if not pairs:
                print(f"| {name}, {way} | not measured | | | | |")
                continue
            more = [after - before for before, after in pairs]
            ratio = statistics.median(after / before for before, after in pairs)
            print(f"| {name}, {way} | {statistics.median(before for before, _ in pairs):.0f} | "
                  f"{statistics.median(more):+.0f} | {min(more):+.0f} to {max(more):+.0f} | {ratio:.3f}x | "
                  f"{len(pairs)} |", flush=True)
    machine = subprocess.run([folder / "launches_shared", "1000", "eager"], stdout=subprocess.PIPE, text=True).stdout
    print("this machine, ns:", ", ".join(machine.split("\n")[:2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--launches", type=int, default=200_000)
    parser.add_argument("--table", action="store_true", help="measure ways to record, and check nothing")
    parser.add_argument("--pairs", action="store_true", help="measure a few ways in pairs, and check nothing")
    parser.add_argument("--seconds", type=float,
                        help="for --table (60; PyTorch takes up to 20 of them) and --pairs (150)")
    options = parser.parse_args()
    options.seconds = options.seconds or (150 if options.pairs else 60)
    if subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode \
            if shutil.which("nvidia-smi") else True:
        skip("there is no GPU")
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not pathlib.Path(nvcc).exists():
        skip("there is no nvcc")
    if options.table or options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            (print_pairs if options.pairs else print_table)(options, nvcc, pathlib.Path(folder))
        return
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = {}
        build(nvcc, folder)
        for runtime in ("static", "shared"):
            program = folder / f"launches_{runtime}"
            programs[f"launches, {runtime} runtime"] = ([program, str(options.launches), "eager"], [], 1000.0)
        graph = [folder / "launches_static", str(options.launches), "graph"]
        programs["graphs, whole"] = (graph, [], None)
        programs["graphs, their nodes"] = (graph, ["--graph-nodes"], None)
        if has_torch():
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
