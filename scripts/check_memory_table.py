#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/memory.md tells the order of the search for memory as the code has it.

scripts/check_memory_table.py [--fix] [repository root]

The allocator runs the table of src/memory/pools/search_order.hpp, whose rows also have the texts for readers. The
picture and the table of the page are written from these texts, between marks. With --fix they are written again;
without it, a page that differs is an error.
"""
import re
import sys
from pathlib import Path

from report_findings import report_findings

SOURCE = "src/memory/pools/search_order.hpp"
PAGE = "docs/memory.md"
# The members of a row that are texts, and all members with which a row begins.
TEXTS = ("phase", "name", "memory", "small_memory", "condition", "who_waits")
FUNCTIONS = ("large", "small", "both")
ROW = re.compile(r"\bSearchStep\{\s*(\.number.*?)\}", re.DOTALL)
MEMBER = re.compile(r"\.(\w+)\s*=\s*(\d+|&\w+::\w+|\"(?:[^\"\\]|\\.)*\"(?:\s*\"(?:[^\"\\]|\\.)*\")*)")
WORD = re.compile(r"\"((?:[^\"\\]|\\.)*)\"")


def steps_of(text):
    """Returns the rows of the table in the source, each as its members by name."""
    steps = []
    for row in ROW.findall(text):
        members = {}
        for name, value in MEMBER.findall(row):
            members[name] = "".join(WORD.findall(value)) if value.startswith('"') else value
        steps.append(members)
    return steps


def problems(steps):
    """Yields what is wrong with the rows themselves."""
    if not steps:
        yield f"{SOURCE}: no rows found"
    for number, step in enumerate(steps, start=1):
        if step.get("number") != str(number):
            yield f"{SOURCE}: row {number} has the number {step.get('number')}"
        for name in TEXTS:
            if name not in step:
                yield f"{SOURCE}: row {number} has no {name}"
        if not any(name in step for name in FUNCTIONS):
            yield f"{SOURCE}: row {number} has no function"
        if not step.get("small_memory") and "small" in step:
            yield f"{SOURCE}: row {number} does not say what it takes for a small block"


def picture(steps):
    """Returns the steps in short, one line for each phase."""
    phases = {}
    for step in steps:
        phases.setdefault(step["phase"], []).append(f"{step['number']} {step['name']}")
    width = max(len(phase) for phase in phases)
    lines = [f"   {phase:<{width}}   {' > '.join(names)}" for phase, names in phases.items()]
    return ["```text drawing", "an allocation", *lines[:-1], lines[-1] + " > OutOfMemory", "```"]


def table(steps):
    lines = ["| | for a large block, or a slab | for a small block | condition | who waits |",
             "| --- | --- | --- | --- | --- |"]
    for step in steps:
        cells = (step["number"], step["memory"], step["small_memory"], step["condition"], step["who_waits"])
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return lines


def parts(steps):
    return {"steps": picture(steps), "search": table(steps)}


def marked(name, lines):
    """Returns the text that the page has for a part, with its marks."""
    begin = f"<!-- {name}: written by scripts/check_memory_table.py --fix -->"
    return "\n".join([begin, *lines, f"<!-- end of {name} -->"])


def with_parts(text, steps):
    """Returns the text of the page with its parts as they should be, and the names of those without marks."""
    missing = []
    for name, lines in parts(steps).items():
        found = re.search(rf"<!-- {name}: .*?<!-- end of {name} -->", text, re.DOTALL)
        if found is None:
            missing.append(name)
        else:
            text = text[:found.start()] + marked(name, lines) + text[found.end():]
    return text, missing


def read(root, path):
    file = Path(root) / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def violations(root):
    steps = steps_of(read(root, SOURCE))
    found = list(problems(steps))
    if found:
        return found
    page = read(root, PAGE)
    expected, missing = with_parts(page, steps)
    found += [f"{PAGE}: there is no part '{name}' between its marks" for name in missing]
    if expected != page:
        found.append(f"{PAGE}: a part is not that of {SOURCE}; scripts/check_memory_table.py --fix writes it")
    return found


def write_page(root):
    steps = steps_of(read(root, SOURCE))
    if not list(problems(steps)):
        (Path(root) / PAGE).write_text(with_parts(read(root, PAGE), steps)[0], encoding="utf-8")


if __name__ == "__main__":
    if "--fix" in sys.argv:
        sys.argv.remove("--fix")
        write_page(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    sys.exit(report_findings(violations, "memory table: the page has the steps of the search in their order"))
