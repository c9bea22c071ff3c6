#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the times of msstream-overlap with those of HolisticTraceAnalysis (HTA) on the same files.

    hta_figures.py --tool build/host/tools/overlap/msstream-overlap TRACE.json.gz…

The busy and idle time, the exposed time of collectives and the part of them that runs beside kernels must be
equal to 0.1%, of the window from the first work of the device to the last. HTA gets a copy of each file:

- without ranges on the device and synchronisations, and without the field "stream" of operations of the host
  (those of Triton have it): HTA counts whatever has a stream as work that runs;
- with times counted from the first one: HTA keeps times as floating-point numbers, which hold Unix times to 1/4 us
  alone. HTA_DISABLE_NS_ROUNDING keeps it from rounding them to us;
- with other names for the steps of PyTorch's profiler, because HTA leaves out the work of the last step.

Ends with status 77 (skipped) if HTA is not installed.
"""
import argparse
import gzip
import importlib.metadata
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
WORK = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
NOT_WORK = ("gpu_user_annotation", "cuda_sync", "overhead")
TOLERANCE = 0.001


def load(path):
    with (gzip.open(path, "rt") if path.suffix == ".gz" else open(path)) as file:
        return json.load(file)


def copy_for_hta(trace, path, device):
    events = [event for event in trace["traceEvents"] if event.get("cat") not in NOT_WORK]
    events = [event for event in events if event.get("cat") not in WORK or event["pid"] == device]
    first = min(float(event["ts"]) for event in events if event.get("ph") == "X")
    for event in events:
        if event.get("cat") not in WORK:
            event.get("args", {}).pop("stream", None)
        if "ts" in event:
            event["ts"] = round(float(event["ts"]) - first, 3)
        if event.get("name", "").startswith("ProfilerStep"):
            event["name"] = event["name"].replace("ProfilerStep", "Step")
    copy = {"distributedInfo": {"rank": 0}, "traceEvents": events}
    with gzip.open(path, "wt") as file:
        json.dump(copy, file)


def times_of_hta(analysis):
    times = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]
    return {
        "window": times["kernel_time(us)"],
        "idle": times["idle_time(us)"],
        "busy": times["kernel_time(us)"] - times["idle_time(us)"],
        "kernels": times["compute_time(us)"],
        "exposed, not kernels": times["non_compute_time(us)"],
        "collectives beside kernels, %": overlap,
    }


def our_times(report):
    work = {part["kind"]: part for part in report["work"]}
    collectives = work["collectives"]
    exposed = sum(part["exposed_ns"] for kind, part in work.items() if kind != "kernels")
    window = sum(time["time_ns"] for time in report["times"])
    busy = collectives["busy_ns"]
    return {
        "window": window / 1e3,
        "idle": (window - report["busy_ns"]) / 1e3,
        "busy": report["busy_ns"] / 1e3,
        "kernels": work["kernels"]["busy_ns"] / 1e3,
        "exposed, not kernels": exposed / 1e3,
        "collectives beside kernels, %": 100 * collectives["beside_kernels_ns"] / busy if busy else float("nan"),
    }


def compare(ours, theirs):
    """Returns what differs."""
    wrong = []
    for name, expected in theirs.items():
        found = ours[name]
        if expected != expected and found != found:
            continue  # neither has collectives
        # HTA rounds shares to 0.01%; times that are written to 1 ns may differ by that.
        least = 0.006 if name.endswith("%") else 0.002
        if not abs(found - expected) <= max(TOLERANCE * abs(expected), least):
            wrong.append(f"{name}: {found:.3f} here, {expected:.3f} in HTA")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, type=pathlib.Path)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    try:
        from hta.trace_analysis import TraceAnalysis
    except ImportError as error:
        print(f"skipped: HolisticTraceAnalysis is not installed ({error})")
        sys.exit(77)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    print(f"HolisticTraceAnalysis {importlib.metadata.version('HolisticTraceAnalysis')}")
    failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file in options.files:
            result = subprocess.run([options.tool, file, "--quiet", "--json", folder / "report.json"],
                                    stderr=subprocess.PIPE, text=True)
            if result.returncode != 0:
                print(f"{file.name}: left out: {result.stderr.strip()}")
                continue
            trace = load(file)
            for report in load(folder / "report.json")["reports"]:
                for device in report["devices"]:
                    copy_for_hta(trace, folder / "copy.json.gz", device["device"])
                    theirs = times_of_hta(TraceAnalysis(trace_files={0: str(folder / "copy.json.gz")}))
                    ours = our_times(device)
                    wrong = compare(ours, theirs)
                    compared += 1
                    failed += bool(wrong)
                    figures = ", ".join(f"{name} {value:.2f}" for name, value in ours.items())
                    print(f"{file.name}, GPU {device['device']}: {'FAILED' if wrong else 'equal'}: {figures}")
                    for line in wrong:
                        print(f"  {line}")
    print(f"{compared - failed} of {compared} are equal to {100 * TOLERANCE}%")
    sys.exit(1 if failed or compared == 0 else 0)


if __name__ == "__main__":
    main()
