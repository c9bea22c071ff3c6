#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of examples/teach/overlap/ and their fixed twins on a GPU, and judges msstream-overlap by them.

Each program is run twice: alone, which gives the time of its step, and under `msstream-overlap run` (PyTorch programs
under torch.profiler with --recorder kineto). Writes Markdown: what was found first for each planted cause, whether the
fixed twin is free of it, a confusion table, and predicted beside measured gains.

    scripts/planted_overlap.py --build build/cuda --out planted.md
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "teach" / "overlap"

# Program and mode, the causes that are right for the first finding, and a second cause of pairs.
CUDA = [
    ("launch_bound", "", "launch-bound", None),
    ("host_busy", "", "host-busy", None),
    ("host_synchronization", "", "host-synchronization", None),
    ("pageable_copy", "", "pageable-copy", None),
    ("legacy_stream", "", "legacy-stream", None),
    ("driver_allocation", "", "driver-allocation", None),
    ("false_dependency", "", "false-dependency", None),
    ("one_stream_two_roles", "", "one-stream-two-roles", None),
    ("copy_engine", "", "copy-engine", None),
    ("multiprocessors_full", "", "multiprocessors-full", None),
    ("planted", "hardware_queue", "hardware-queue", None),
    ("planted", "lazy_loading", "lazy-loading", None),
    ("planted", "queue_is_full", "queue-is-full", None),
    ("planted", "priority_cannot_help", "priority-cannot-help", None),
    ("planted", "bandwidth_shared", "bandwidth-shared", None),
    ("planted", "shared_memory_full", "multiprocessors-full", None),
    ("planted", "legacy_fill", "legacy-stream", None),
    ("planted", "redundant_wait", "false-dependency", None),
    ("planted", "pageable_download", "pageable-copy", None),
    ("planted", "event_synchronize", "host-synchronization", None),
    ("planted", "device_synchronize", "host-synchronization", None),
    ("planted", "host_alloc", "driver-allocation", None),
    ("planted", "both_directions", "one-stream-two-roles", None),
    ("planted", "download_engine", "copy-engine", None),
    ("planted", "launch_two_streams", "launch-bound", None),
    ("planted", "pageable_and_synchronize", "pageable-copy", "host-synchronization"),
    ("planted", "allocation_and_full", "driver-allocation", "multiprocessors-full"),
    ("planted", "legacy_and_busy", "legacy-stream", "host-busy"),
]
PYTORCH = [
    ("planted.py", "eager_small", "launch-bound", None),
    ("planted.py", "read_the_loss", "host-synchronization", None),
    ("planted.py", "pageable_batch", "pageable-copy", None),
    ("planted.py", "slow_input", "host-busy", None),
    ("planted.py", "aliased_streams", "one-stream-two-roles", None),
    ("planted.py", "empty_cache", "driver-allocation", None),
    ("planted.py", "large_products", "multiprocessors-full", None),
    ("planted.py", "late_wait_stream", "false-dependency", None),
    ("planted.py", "tutorial_copies", "pageable-copy", None),
]
# Its second half waits for the all-reduces of the first one. No recording tells that it does not need them: the tool finds
# what else holds the halves up.
TWO_GPUS = [("half_batches.py", "", "one-stream-two-roles", None)]


def command_of(program, mode, fixed, build):
    if program.endswith(".py"):
        command = [sys.executable, str(SOURCE / program)]
    else:
        command = [str(build / "examples" / "teach" / "overlap" / f"overlap_{program}")]
    return command + ([mode] if mode else []) + (["--fixed"] if fixed else [])


def execute(command, timeout):
    """Returns the output, or raises RuntimeError that says why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"still ran after {timeout} s") from error
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"status {done.returncode}: {last[-1] if last else 'no message'}")
    return done.stdout


def step_time(command, timeout):
    for line in execute(command, timeout).splitlines():
        if line.startswith("{") and "step_us" in line:
            return json.loads(line)["step_us"]
    raise RuntimeError("printed no step time")


def record(command, program, options, folder, name):
    """Records a program, and returns the files."""
    if program.endswith(".py") and options.recorder == "kineto":
        target = folder / name if program == "half_batches.py" else folder / f"{name}.json.gz"
        execute([*command, "--trace", str(target)], options.program_timeout)
        return sorted(target.iterdir()) if target.is_dir() else [target]
    target = folder / f"{name}.json.gz"
    execute(
        [str(options.tool), "run", "--range", "measured", "--output", str(target), "--force", "--", *command],
        options.program_timeout,
    )
    return sorted(folder.glob(f"{name}*.json.gz"))


def report_of(files, options):
    """Returns the first report."""
    with tempfile.NamedTemporaryFile(suffix=".json") as target:
        execute([str(options.tool), *map(str, files), "--json", target.name], options.program_timeout)
        return json.loads(pathlib.Path(target.name).read_text())["reports"][0]


def judge(entry, options, folder):
    program, mode, expected, second = entry
    row = {"name": mode or program.removesuffix(".py"), "program": program, "expected": expected, "second": second}
    findings = {}
    together = {}
    for fixed in (False, True):
        key = "fixed" if fixed else "planted"
        command = command_of(program, mode, fixed, options.build)
        # Times come from runs without the recorder, one program at a time.
        row[f"{key}_us"] = step_time(command, options.program_timeout)
        files = record(command, program, options, folder, f"{row['name']}_{key}")
        if not files:
            raise RuntimeError("the recorder wrote no file")
        report = report_of(files, options)
        findings[key], together[key] = report["findings"], report["together"]
        if options.keep is None:
            for file in files:
                file.unlink()
    row["found"] = [finding["cause"] for finding in findings["planted"]]
    row["left"] = [finding["cause"] for finding in findings["fixed"]]
    prediction = next((f["prediction"] for f in findings["planted"] if f["cause"] == expected and f["prediction"]), None)
    if second and together["planted"]:
        prediction = together["planted"]  # the twin of a pair has both fixes
    if prediction:
        row["predicted"] = prediction["before_ns"] / max(1, prediction["after_ns"])
        if "least_ns" in prediction:
            row["range"] = [prediction["before_ns"] / max(1, prediction[key]) for key in ("most_ns", "least_ns")]
    return row


def within(row):
    """Whether the predicted step is within 25% of the measured gain or 5% of the step, whichever is larger."""
    measured = row["planted_us"] - row["fixed_us"]
    predicted = row["planted_us"] * (1 - 1 / row["predicted"])
    return abs(predicted - measured) <= max(0.25 * abs(measured), 0.05 * row["planted_us"])


def markdown(rows, failed, skipped, device, recorder):
    out = [f"Recorded on {device}, PyTorch programs with {recorder}.", ""]
    out += ["| program | planted cause | found first | also found | the twin has | step, us | fixed, us | gain | predicted |"]
    out += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        first = row["found"][0] if row["found"] else "nothing"
        mark = "" if first == row["expected"] else " (wrong)"
        gain = row["planted_us"] / row["fixed_us"]
        predicted = "-" if "predicted" not in row else f"{row['predicted']:.2f}" + ("" if within(row) else " (off)")
        planted = row["expected"] + (f", {row['second']}" if row["second"] else "")
        out.append(
            f"| {row['name']} | {planted} | {first}{mark} | {', '.join(row['found'][1:]) or '-'} "
            f"| {', '.join(row['left']) or '-'} | {row['planted_us']:.0f} | {row['fixed_us']:.0f} | {gain:.2f} | {predicted} |"
        )
    causes = sorted({row["expected"] for row in rows} | {row["found"][0] for row in rows if row["found"]})
    out += ["", "The confusion table: a row for each planted cause, a column for what was found first.", ""]
    out += ["| planted | " + " | ".join(causes) + " | nothing |", "| --- |" + " --- |" * (len(causes) + 1)]
    for expected in sorted({row["expected"] for row in rows}):
        firsts = [row["found"][0] if row["found"] else "nothing" for row in rows if row["expected"] == expected]
        cells = [str(firsts.count(cause)) if cause in firsts else "" for cause in [*causes, "nothing"]]
        out.append(f"| {expected} | " + " | ".join(cells) + " |")
    right = sum(bool(row["found"]) and row["found"][0] == row["expected"] for row in rows)
    clean = sum(row["expected"] not in row["left"] for row in rows)
    pairs = [row for row in rows if row["second"]]
    both = sum(row["second"] in row["found"] for row in pairs)
    predicted = [row for row in rows if "predicted" in row]
    large = sum(row["planted_us"] >= 1.5 * row["fixed_us"] for row in rows)
    out += [
        "",
        f"Found first: {right} of {len(rows)}. Fixed twins without the cause: {clean} of {len(rows)}. Both causes of a "
        f"pair: {both} of {len(pairs)}.",
        f"Predicted within 25% of the gain or 5% of the step: {sum(map(within, predicted))} of {len(rows)} "
        f"({len(rows) - len(predicted)} without a prediction). Fixes that gain 1.5x or more: {large}.",
    ]
    if failed:
        out += ["", "Not judged:", ""] + [f"- {name}: {why}" for name, why in failed]
    if skipped:
        out += ["", f"Not run, as the time was over: {', '.join(skipped)}."]
    return "\n".join(out) + "\n"


def device_name():
    try:
        names = execute(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], 30).splitlines()
        return f"{len(names)} x {names[0]}"
    except (OSError, RuntimeError) as error:
        return f"an unknown device ({error})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a build with MSSTREAM_CUDA=ON")
    parser.add_argument("--tool", type=pathlib.Path, help="msstream-overlap; default: that of the build")
    parser.add_argument("--out", type=pathlib.Path, help="the Markdown file; default: standard output")
    parser.add_argument("--rows", type=pathlib.Path, help="a JSON file with all that was measured")
    parser.add_argument("--recorder", choices=["msstream", "kineto"], default="msstream")
    parser.add_argument("--only", default="", help="run only programs and modes whose name contains this")
    parser.add_argument("--no-pytorch", action="store_true")
    parser.add_argument("--two-gpus", action="store_true", help="run half_batches.py only")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which no further program begins")
    parser.add_argument("--program-timeout", type=float, default=60, help="seconds for one run")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder that keeps the recordings")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.tool = (options.tool or options.build / "tools" / "overlap" / "msstream-overlap").resolve()
    entries = TWO_GPUS if options.two_gpus else CUDA + ([] if options.no_pytorch else PYTORCH)
    entries = [entry for entry in entries if options.only in f"{entry[0]} {entry[1]}"]
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    begin = time.monotonic()
    rows, failed, skipped = [], [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            name = entry[1] or entry[0]
            if time.monotonic() - begin > options.limit:
                skipped.append(name)
                continue
            try:
                rows.append(judge(entry, options, folder))
                print(f"{name}: {', '.join(rows[-1]['found']) or 'nothing'}", file=sys.stderr, flush=True)
            except (OSError, RuntimeError, ValueError, LookupError) as error:
                failed.append((name, str(error)))
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    text = markdown(rows, failed, skipped, device_name(), options.recorder)
    if options.out:
        options.out.write_text(text)
    else:
        print(text, end="")
    if options.rows:
        options.rows.write_text(json.dumps(rows, indent=1) + "\n")
    right = sum(bool(row["found"]) and row["found"][0] == row["expected"] for row in rows)
    return 0 if rows and not failed and right * 10 >= len(rows) * 9 else 1


if __name__ == "__main__":
    sys.exit(main())
