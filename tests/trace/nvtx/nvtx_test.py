#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what a tool for NVTX is told: nvtx_test.py PROGRAM INJECTION

PROGRAM is ranges.cpp, and INJECTION the library of injection.cpp, which writes down each call.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

EXPECTED = """\
domain msstream
msstream: category 1 is default group
msstream: category 2 is group 2
msstream: register user_tower/attention
msstream: push registered user_tower/attention, category 0, payload 0
msstream: register dense
msstream: push registered dense, category 2, payload 41
msstream: pop
msstream: push registered dense, category 2, payload 42
msstream: pop
msstream: pop
msstream: counter 101 is cuda 0 memory in use in B
msstream: counter 102 is group 2 waits in 1
msstream: counter 101 = 1048576
msstream: counter 102 = 7
msstream: counter 102 = 8
"""


def main():
    program, injection = sys.argv[1:]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NVTX_")}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        subprocess.run([program], check=True, timeout=300,
                       env=environment | {"NVTX_INJECTION64_PATH": injection, "MSSTREAM_NVTX_LOG": str(log)})
        told = log.read_text()
    if not told.startswith(EXPECTED):
        print(f"the tool was told\n{told[:2000]}\nexpected\n{EXPECTED}")
        return 1
    lines = told.splitlines()[EXPECTED.count("\n"):]
    registered = sum(" register " in line for line in lines)
    as_text = sum("push text step" in line for line in lines)
    # 8192 strings in all, of which two were registered above.
    if registered != 8190 or as_text != 9000 - 8190 or sum(line.endswith(": pop") for line in lines) != 9002:
        print(f"{registered} strings registered, {as_text} ranges with texts")
        return 1
    if not told.endswith("""\
msstream: push registered user_tower/attention, category 0, payload 0
msstream: push registered dense, category 0, payload 0
msstream: pop
msstream: pop
"""):
        print(f"the ranges of another thread are not as registered:\n{told[-500:]}")
        return 1
    numbered = [line for line in lines if " step " in line and "push" in line]
    if any(f" step {i}," not in line for i, line in enumerate(numbered)):
        print("a numbered range has the name of another one")
        return 1
    without = subprocess.run([program], check=True, timeout=300, env=environment, capture_output=True, text=True)
    print(f"without a tool: {without.stdout.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
