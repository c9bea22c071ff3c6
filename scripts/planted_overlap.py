#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of examples/teach/overlap/ and their fixed twins on a GPU, and judges msstream-overlap by them.

Each program is run twice: alone, which gives the time of its step, and under `msstream-overlap run` (PyTorch programs
under torch.profiler with --recorder kineto). Writes Markdown: what was found first for each planted cause, whether the
fixed twin is free of it, a confusion table, and predicted beside measured gains.

    scripts/planted_overlap.py --build build/cuda --out planted.md
    scripts/planted_overlap.py --build build/cuda --two-gpus --out ranks.md

The status is 1 if a program failed or was not run, or if the first finding is wrong for more than one of ten. Programs
whose cause no recording tells are shown, but do not count.
"""

import argparse
import gzip
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import typing

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "teach" / "overlap"


class Planted(typing.NamedTuple):
    program: str
    mode: str
    cause: str  # that the first finding must have
    second: typing.Optional[str] = None  # another cause, which a later finding must have
    twin_options: tuple = ()  # of `msstream-overlap run`, if the twin is the program recorded in another way
    in_recording: bool = False  # the cause costs time only while the program is recorded
    window: str = ""  # the range that is judged; default: all that was recorded
    by_range: bool = False  # the recording leaves the gain open: the range of the prediction is judged
    part: float = 1  # of the predicted gain, which the twin has
    not_found: str = ""  # why no recording tells the cause: the first finding is another one


CUDA = [
    Planted("launch_bound", "", "launch-bound"),
    Planted("host_busy", "", "host-busy"),
    Planted("host_synchronization", "", "host-synchronization"),
    Planted("pageable_copy", "", "pageable-copy"),
    Planted("legacy_stream", "", "legacy-stream"),
    Planted("driver_allocation", "", "driver-allocation"),
    Planted("false_dependency", "", "false-dependency"),
    Planted("one_stream_two_roles", "", "one-stream-two-roles"),
    Planted("copy_engine", "", "copy-engine"),
    Planted("multiprocessors_full", "", "multiprocessors-full"),
    Planted("planted", "hardware_queue", "hardware-queue"),
    Planted("planted", "lazy_loading", "lazy-loading"),
    Planted("planted", "queue_is_full", "queue-is-full"),
    Planted("planted", "priority_cannot_help", "priority-cannot-help"),
    Planted("planted", "bandwidth_shared", "bandwidth-shared"),
    Planted("planted", "shared_memory_full", "multiprocessors-full"),
    Planted("planted", "legacy_fill", "legacy-stream"),
    Planted("planted", "redundant_wait", "false-dependency"),
    Planted("planted", "pageable_download", "pageable-copy"),
    Planted("planted", "event_synchronize", "host-synchronization"),
    Planted("planted", "device_synchronize", "host-synchronization"),
    Planted("planted", "host_alloc", "driver-allocation"),
    Planted("planted", "both_directions", "one-stream-two-roles"),
    Planted("planted", "download_engine", "copy-engine"),
    Planted("planted", "launch_two_streams", "launch-bound"),
    Planted("planted_limits", "short_kernels", "short-kernels", window="judged", by_range=True),
    Planted("planted_limits", "true_dependency", "true-dependency", by_range=True),
    Planted("planted_limits", "recording_overhead", "recording-overhead", in_recording=True),
    Planted("planted_limits", "host_function", "unknown"),
    Planted("planted_limits", "graph_as_a_whole", "unknown", twin_options=("--graph-nodes",)),
    Planted("planted", "pageable_and_synchronize", "pageable-copy", "host-synchronization"),
    Planted("planted", "allocation_and_full", "driver-allocation", "multiprocessors-full"),
    Planted("planted", "legacy_and_busy", "legacy-stream", "host-busy"),
]
PYTORCH = [
    Planted("planted.py", "eager_small", "launch-bound"),
    Planted("planted.py", "read_the_loss", "host-synchronization"),
    Planted("planted.py", "pageable_batch", "pageable-copy"),
    Planted("planted.py", "slow_input", "host-busy"),
    Planted("planted.py", "aliased_streams", "one-stream-two-roles"),
    Planted("planted.py", "empty_cache", "driver-allocation"),
    Planted("planted.py", "large_products", "multiprocessors-full"),
    Planted("planted.py", "late_wait_stream", "false-dependency"),
    Planted("planted.py", "tutorial_copies", "pageable-copy"),
]
# Each rank has a recording, and the report of rank 0 is judged.
TWO_GPUS = [
    Planted("planted_ranks.py", "peer_skew", "peer-skew", window="judged"),
    # What rank 1 is spared falls to rank 0: the step of three parts takes two, and one if rank 0 waited for nobody.
    Planted("planted_ranks.py", "uneven_rows", "peer-skew", window="judged", part=0.5),
    Planted("planted_ranks.py", "collective_order", "collective-order", window="judged"),
    Planted("planted_ranks.py", "collective_holds_sms", "collective-holds-sms", window="judged"),
    Planted(
        "half_batches.py",
        "",
        "one-stream-two-roles",
        window="judged",
        not_found="its second half waits for all-reduces of the first one, and no recording tells that it need not",
    ),
]
SECONDS_OF_A_PROGRAM = 90


def command_of(program, mode, fixed, build):
    if program.endswith(".py"):
        command = [sys.executable, str(SOURCE / program)]
    else:
        command = [str(build / "examples" / "teach" / "overlap" / f"overlap_{program}")]
    return command + ([mode] if mode else []) + (["--fixed"] if fixed else [])


def execute(command, timeout):
    """Returns the output, or raises RuntimeError that says why there is none."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException as error:  # KeyboardInterrupt, too
            os.killpg(process.pid, signal.SIGKILL)  # with the ranks that it started
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"still ran after {timeout} s") from error
            raise
    if process.returncode != 0:
        raise RuntimeError(f"status {process.returncode}: {error_line(errors or output)}")
    return output


def error_line(text):
    """Returns the line that says what went wrong: the program's own, if it has one beside notes of the recorder."""
    lines = [line for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("msstream-overlap:")]
    errors = [line for line in own if re.match(r"([\w.]*Error|error)\b.*:", line)]
    return ([*lines, *own[-1:], *errors[-1:]] or ["no message"])[-1].strip()


def step_time(command, timeout):
    for line in execute(command, timeout).splitlines():
        if line.startswith("{") and "step_us" in line:
            return json.loads(line)["step_us"]
    raise RuntimeError("printed no step time")


def record(command, entry, options, folder, name, more=()):
    """Records a program, and returns the files: one, or one for each rank."""
    for stale in folder.glob(f"{name}*.json.gz"):
        stale.unlink()
    if entry.program.endswith(".py") and options.recorder == "kineto":
        target = folder / name if entry in TWO_GPUS else folder / f"{name}.json.gz"
        execute([*command, "--trace", str(target)], options.program_timeout)
        return sorted(target.iterdir()) if target.is_dir() else [target]
    target = folder / f"{name}.json.gz"
    execute(
        [str(options.tool), "run", "--range", "measured", "--output", str(target), "--force", *more, "--", *command],
        options.program_timeout,
    )
    return sorted(folder.glob(f"{name}*.json.gz"))


def blocks_of_collectives(files):
    """Returns the most blocks that a kernel of NCCL has in the recordings; None without one."""
    blocks = []
    for file in files:
        for event in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]:
            if event.get("name", "").startswith("nccl") and "grid" in event.get("args", {}):
                blocks.append(math.prod(event["args"]["grid"]))
    return max(blocks, default=None)


def report_of(files, options, window=""):
    """Returns the report, of several ranks that of rank 0."""
    with tempfile.NamedTemporaryFile(suffix=".json") as target:
        part = ["--window", window] if window else []
        execute([str(options.tool), *map(str, files), "--json", target.name, *part], options.program_timeout)
        reports = json.loads(pathlib.Path(target.name).read_text())["reports"]
    return next((report for report in reports if report.get("rank") == 0), reports[0])


def judge(entry, options, folder):
    program, expected, second = entry.program, entry.cause, entry.second
    name = entry.mode or program.removesuffix(".py")
    row = {"name": name, "program": program, "expected": expected, "second": second, "recorded": entry.in_recording}
    row |= {"by_range": entry.by_range, "part": entry.part, "not_found": entry.not_found}
    findings = {}
    together = {}
    for fixed in (False, True):
        key = "fixed" if fixed else "planted"
        command = command_of(program, entry.mode, fixed, options.build)
        # Times come from runs without the recorder, one program at a time, unless it is the recorder that takes time.
        row[f"{key}_us"] = step_time(command, options.program_timeout)
        files = record(command, entry, options, folder, f"{name}_{key}", entry.twin_options if fixed else ())
        if not files:
            raise RuntimeError("the recorder wrote no file")
        report = report_of(files, options, entry.window)
        if entry.mode == "collective_holds_sms":
            row[f"{key}_blocks"] = blocks_of_collectives(files)
        if entry.in_recording:
            row[f"{key}_us"] = (report["window"]["end_ns"] - report["window"]["begin_ns"]) / 1000
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
    """Whether the predicted gain is within 25% of the measured one or 5% of the step, whichever is larger.

    Where the recording leaves the gain open, whether the range of the prediction comes so close.
    """
    measured = row["planted_us"] - row["fixed_us"]
    ratios = [row["predicted"], *(row.get("range", []) if row["by_range"] else [])]
    gains = [row["planted_us"] * (1 - 1 / ratio) * row["part"] for ratio in ratios]
    nearest = min(max(measured, min(gains)), max(gains))
    return abs(nearest - measured) <= max(0.25 * abs(measured), 0.05 * row["planted_us"])


def is_right(row):
    return bool(row["found"]) and row["found"][0] == row["expected"]


def predicted_text(row):
    if "predicted" not in row:
        return "-"
    if row["by_range"] and "range" in row:
        text = " to ".join(f"{ratio:.2f}" for ratio in row["range"])
    else:
        text = f"{1 / (1 - row['part'] * (1 - 1 / row['predicted'])):.2f}"
    return text + ("" if within(row) else " (off)")


def markdown(rows, failed, skipped, device, recorder):
    out = [f"Recorded on {device}, PyTorch programs with {recorder}.", ""]
    out += ["| program | planted cause | found first | also found | the twin has | step, us | fixed, us | gain | predicted |"]
    out += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        first = row["found"][0] if row["found"] else "nothing"
        mark = "" if is_right(row) else " (no recording tells)" if row["not_found"] else " (wrong)"
        gain = row["planted_us"] / row["fixed_us"]
        where = " (times of the recorded window)" if row["recorded"] else ""
        planted = row["expected"] + (f", {row['second']}" if row["second"] else "")
        out.append(
            f"| {row['name']}{where} | {planted} | {first}{mark} | {', '.join(row['found'][1:]) or '-'} "
            f"| {', '.join(row['left']) or '-'} | {row['planted_us']:.0f} | {row['fixed_us']:.0f} | {gain:.2f} "
            f"| {predicted_text(row)} |"
        )
    for row in rows:
        if row["not_found"]:
            out += ["", f"{row['name']} does not count: {row['not_found']}."]
        if "planted_blocks" in row:
            out += ["", f"{row['name']}: NCCL used {row['planted_blocks']} blocks, fixed {row['fixed_blocks']}."]
    rows = [row for row in rows if not row["not_found"]]
    causes = sorted({row["expected"] for row in rows} | {row["found"][0] for row in rows if row["found"]})
    out += ["", "The confusion table: a row for each planted cause, a column for what was found first.", ""]
    out += ["| planted | " + " | ".join(causes) + " | nothing |", "| --- |" + " --- |" * (len(causes) + 1)]
    for expected in sorted({row["expected"] for row in rows}):
        firsts = [row["found"][0] if row["found"] else "nothing" for row in rows if row["expected"] == expected]
        cells = [str(firsts.count(cause)) if cause in firsts else "" for cause in [*causes, "nothing"]]
        out.append(f"| {expected} | " + " | ".join(cells) + " |")
    right = sum(map(is_right, rows))
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
    parser.add_argument("--two-gpus", action="store_true", help="run the programs for two GPUs, and no others")
    parser.add_argument(
        "--limit",
        type=float,
        help=f"seconds after which no further program begins; default: {SECONDS_OF_A_PROGRAM} for each program",
    )
    parser.add_argument("--program-timeout", type=float, default=60, help="seconds for one run")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder that keeps the recordings")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.tool = (options.tool or options.build / "tools" / "overlap" / "msstream-overlap").resolve()
    entries = TWO_GPUS if options.two_gpus else CUDA + ([] if options.no_pytorch else PYTORCH)
    entries = [entry for entry in entries if options.only in f"{entry.program} {entry.mode}"]
    if options.limit is None:
        options.limit = SECONDS_OF_A_PROGRAM * len(entries)
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    begin = time.monotonic()
    rows, failed, skipped = [], [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            name = entry.mode or entry.program
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
    return status_of(rows, failed, skipped)


def status_of(rows, failed, skipped):
    """Returns 0 if all programs were judged and nine of ten, without those that no recording tells, are right."""
    judged = [row for row in rows if not row["not_found"]]
    return 0 if rows and not failed and not skipped and 10 * sum(map(is_right, judged)) >= 9 * len(judged) else 1


if __name__ == "__main__":
    sys.exit(main())
