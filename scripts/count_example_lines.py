#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the example models stay short: scripts/count_example_lines.py [repository root].

Counts the lines of each program in examples/models/ and of its counterpart in PyTorch. Left out are, in both, blank
lines, lines of comments, includes or imports, and statements that only print; in C++ also aliases of namespaces, the
statements of a reporter (its declaration, as an object of a class of ms::report, and the calls of its functions), and
statements that open a reader of data, `auto rows = clicks::batches(…);`, where a counterpart names it in its loop. The
output says how many lines each rule leaves out.

The programs and their counterparts have their data in a file of its own, which is not counted: the rows that are made
up, their readers, and their values as clients of a server have them. So that nothing else hides there, such a file may
not name ops::, serve::, Parameters, GradientTape, Optimizer or metrics::. A program must stay within a budget, and
within 2.5 times the lines of the counterpart.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings

BUDGETS = {"dlrm": 60, "two_tower": 50, "din": 85}
MOST_TIMES = 2.5
# A rule matches the beginning of a line, without its indentation.
CPP = {
    "blank": r"$",
    "comments": r"//",
    "includes": r"#include\b",
    "aliases": r"namespace \w+ = ",
    "prints": r"std::printf\(",
    "reads": r"auto \w+ = \w+::batches\(",
}
PYTHON = {"blank": r"$", "comments": r"#|\"\"\"", "imports": r"from \w|import \w", "prints": r"print\("}
# What a header with data may not name.
OTHER_THAN_DATA = re.compile(r"\b(ops::|serve::|metrics::|Parameters\b|GradientTape\b|Optimizer\b)")
REPORTER = re.compile(r"^\s*ms::report::\w+ (\w+)\(", re.MULTILINE)


def cpp_rules(text):
    reporters = REPORTER.findall(text)
    if not reporters:
        return CPP
    names = "|".join(reporters)
    return CPP | {"reports": rf"ms::report::\w+ (?:{names})\(|(?:{names})\."}


def count(text, rules):
    """Returns the number of lines that count, and that of the lines that each rule leaves out."""
    left_out = dict.fromkeys(rules, 0)
    counted = 0
    for line in text.splitlines():
        rule = next((name for name, pattern in rules.items() if re.match(pattern, line.strip())), None)
        if rule is None:
            counted += 1
        else:
            left_out[rule] += 1
    return counted, left_out


def other_than_data(name, text):
    """Yields the lines of a header with data that are no data."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := OTHER_THAN_DATA.search(line):
            yield f"examples/models/{name}:{number}: '{found.group()}' in a file whose lines are not counted"


def violations(root):
    folder = Path(root, "examples/models")
    for path in sorted(folder.glob("*.hpp")):
        yield from other_than_data(path.name, path.read_text())
    for name, budget in BUDGETS.items():
        text = (folder / f"{name}.cpp").read_text()
        ours, left_out = count(text, cpp_rules(text))
        theirs, _ = count((folder / f"{name}_pytorch.py").read_text(), PYTHON)
        if ours > budget:
            yield f"examples/models/{name}.cpp: {ours} lines of code; at most {budget}"
        if ours > MOST_TIMES * theirs:
            yield f"examples/models/{name}.cpp: {ours} lines of code; at most {MOST_TIMES} times PyTorch's {theirs}"
        rest = ", ".join(f"{lines} {rule}" for rule, lines in left_out.items())
        print(f"examples/models/{name}.cpp: {ours} lines, {ours / theirs:.2f} times PyTorch's {theirs}; left out: {rest}")


if __name__ == "__main__":
    sys.exit(report_findings(violations, "lines: the example models are within their budgets"))
