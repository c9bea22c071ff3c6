#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the same length of time of two recordings: scripts/draw_before_after.py TOOL BEFORE.json.gz AFTER.json.gz FOLDER

TOOL is msstream-overlap. The recordings are of a program that replays a captured step, on one stream group and on several,
with the nodes of its graphs:

    for groups in 1 7; do
      msstream-overlap run --graph-nodes --skip 3 --duration 0.02 --output groups-$groups.json.gz -- \\
        train_ple --stream-groups $groups --capture --holdout 0 --steps 20000 --epochs 33 --quiet
    done

The pictures, FOLDER/before.svg and FOLDER/after.svg, begin with a replay in the middle of their recording and show as
much time as the step of the first recording takes. The text for each is printed: how long a step takes, its median in the
recording, and how many of them fit.
"""
import gzip
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
FEWEST_NODES = 8  # of a step; fewer are a launch of something else


def events_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def replays(events):
    """Returns when the replays of graphs begin, in µs since the recording's begin: the work of each has one correlation."""
    events = [event for event in events if event.get("ph") == "X"]  # what has a time
    zero = min(event["ts"] for event in events)
    begins = defaultdict(list)
    for event in events:
        if event.get("cat") in WORK:
            begins[event["args"]["correlation"]].append(event["ts"] - zero)
    found = sorted(min(times) for times in begins.values() if len(times) >= FEWEST_NODES)
    if len(found) < 3:
        raise ValueError(f"expected at least 3 replays of graphs with {FEWEST_NODES} nodes or more each, found {len(found)}: "
                         "record with --graph-nodes a program that captures its step")
    return found


def step_us(begins):
    return statistics.median(after - before for before, after in zip(begins, begins[1:]))


def windows(before, after):
    """Returns the begins of the two windows and their length, in µs, and how long a step takes in each."""
    steps = step_us(before), step_us(after)
    return (before[len(before) // 2], after[len(after) // 2]), steps[0], steps


def main():
    tool, before, after, folder = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    begins, length, steps = windows(*(replays(events_of(path)) for path in (before, after)))
    for path, name, begin, step in zip((before, after), ("before", "after"), begins, steps):
        picture = folder / f"{name}.svg"
        subprocess.run([tool, path, "--window", f"{begin:.3f}us:{begin + length:.3f}us", "--quiet", "--svg-timeline",
                        "--svg", picture], check=True)
        print(f"{picture}: {length:.0f} µs, {length / step:.1f} steps of {step:.0f} µs")


if __name__ == "__main__":
    main()
