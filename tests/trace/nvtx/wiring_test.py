#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what a tool for NVTX is told of groups, operations and memory: wiring_test.py PROGRAM INJECTION

PROGRAM is test_fake_cuda, which needs no GPU, and INJECTION the library of injection.cpp.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def log_of(program, injection):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NVTX_")}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        subprocess.run([program, "--gtest_filter=ToolTest.*"], check=True, timeout=300, stdout=subprocess.DEVNULL,
                       env=environment | {"NVTX_INJECTION64_PATH": injection, "MSSTREAM_NVTX_LOG": str(log)})
        return log.read_text()


def main():
    program, injection = sys.argv[1:]
    log = log_of(program, injection)
    categories = {name: number for number, name in re.findall(r"category (\d+) is (.*)", log)}
    ranges = re.findall(r"push registered (.*), category (\d+), payload (\d+)", log)
    counters = {name: number for number, name in re.findall(r"counter (\d+) is (.*) in ", log)}

    def samples(name):
        return [int(value) for value in re.findall(rf"counter {counters[name]} = (-?\d+)", log)]

    def category_of(operation, group):
        return [payload for name, category, payload in ranges
                if name == operation and category == categories[group] and payload != "0"]

    wrong = []

    def expect(what, holds):
        if not holds:
            wrong.append(what)

    groups = ["default group", "group 0", "group 1"]
    expect("a category for each group", set(groups) <= set(categories) and "0" not in categories.values())
    expect("categories that differ", len(set(categories.values())) == len(categories))
    for operation, group, count in [("write", "group 0", 2), ("write", "group 1", 1), ("alone", "default group", 1)]:
        expect(f"the operation's number on its stream, in the category of {group}",
               group in categories and len(category_of(operation, group)) == count)
    expect("the range of a scope without a category", ("user_tower", "0", "0") in ranges)
    for group in [*groups, "group 0 (2)"]:
        for what in ("waits", "queued launches"):
            expect(f"samples of {what} of {group}",
                   f"cuda 0 {group} {what}" in counters and samples(f"cuda 0 {group} {what}"))
    if not wrong:
        expect("a wait of group 1", max(samples("cuda 0 group 1 waits")) >= 1)
        expect("no wait of group 0", max(samples("cuda 0 group 0 waits")) == 0)
        expect("a wait of the group 0 of the second pool", max(samples("cuda 0 group 0 (2) waits")) >= 1)
        expect("no more queued launches than there were", max(samples("cuda 0 group 0 queued launches")) <= 1)
    for what in ("memory in use", "memory reserved"):
        expect(f"bytes of {what}", f"cuda 0 {what}" in counters and max(samples(f"cuda 0 {what}")) >= 256)
    for what in wrong:
        print(f"missing: {what}")
    if wrong:
        print(log[:4000])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
