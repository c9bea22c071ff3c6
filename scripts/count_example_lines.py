#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the example models stay short: scripts/count_example_lines.py [repository root].

Counts the lines of code of each program in examples/models/ and of its counterpart in PyTorch: without blank lines,
comments, includes and imports, lines that open or close a namespace, and lines that only print. Both have their data
in a file of its own, which is not counted. The programs must stay within a budget, and within 2.5 times the lines of
the counterpart.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings

BUDGETS = {"dlrm": 60, "two_tower": 50, "din": 85}
MOST_TIMES = 2.5
NOT_CPP = re.compile(r"#include|namespace \w+ = |//|$|.*\bstd::printf\(|.*\bprogress\b")
NOT_PYTHON = re.compile(r"#|from |import |$|print\(|\"\"\"")


def count(path, leave_out):
    return sum(1 for line in path.read_text().splitlines() if not leave_out.match(line.strip()))


def violations(root):
    folder = Path(root, "examples/models")
    for name, budget in BUDGETS.items():
        ours = count(folder / f"{name}.cpp", NOT_CPP)
        theirs = count(folder / f"{name}_pytorch.py", NOT_PYTHON)
        if ours > budget:
            yield f"examples/models/{name}.cpp: {ours} lines of code; at most {budget}"
        if ours > MOST_TIMES * theirs:
            yield f"examples/models/{name}.cpp: {ours} lines of code; at most {MOST_TIMES} times PyTorch's {theirs}"
        print(f"examples/models/{name}.cpp: {ours} lines, {ours / theirs:.2f} times PyTorch's {theirs}")


if __name__ == "__main__":
    sys.exit(report_findings(violations, "lines: the example models are within their budgets"))
