#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the pages show what programs print: scripts/check_outputs.py BUILD [repository root].

A block that begins with "```text examples/teach/two_streams.cpp" shows lines that the program prints which is built from
that file, in the folder BUILD. Arguments of the program follow the file. A line "…" stands for any number of lines that
are left out. A number after "~" differs between runs: any number may be printed in its place, and another unit of time
after it.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

from check_snippets import blocks, checked_pages, parts

NUMBER = r"[-+]?\d[\d,']*(?:\.\d+)?(?:e[-+]?\d+)?"
VARYING = re.compile(rf"~{NUMBER}(?P<unit> (?:ns|us|µs|ms|s)\b)?")


def pattern_of(line):
    """Returns the expression for what a program may print in place of a line."""
    out, end = "", 0
    for found in VARYING.finditer(line):
        unit = r" (?:ns|us|µs|ms|s)" if found.group("unit") else ""
        out += re.escape(line[end:found.start()]) + NUMBER + unit
        end = found.end()
    return re.compile(out + re.escape(line[end:].rstrip()) + r"\s*")


def difference(shown, printed):
    """Returns the position of the first line of `shown` that is not printed at its place; None if all are."""
    begin = 0
    for at, run in parts(shown):
        patterns = [pattern_of(line) for line in run]
        longest = 0
        for place in range(begin, len(printed)):
            count = 0
            while count < len(run) and place + count < len(printed) and patterns[count].fullmatch(printed[place + count]):
                count += 1
            longest = max(longest, count)
            if count == len(run):
                begin = place + count
                break
        else:
            return at + longest
    return None


def program_of(build, source):
    """Returns the program that is built from a file; None if there is none."""
    folder = build / Path(source).parent
    for name in (Path(source).stem, f"teach_{Path(source).stem}"):
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            return folder / name
    return None


def violations(build, root):
    outputs = {}
    for path in checked_pages(root):
        page = path.relative_to(root).as_posix()
        for line, name, shown in blocks(path.read_text(encoding="utf-8"), "text"):
            if not name.startswith("examples/"):
                continue
            source, *arguments = name.split()
            program = program_of(build, source)
            if program is None:
                yield f"{page}:{line}: {build} has no program of {source}"
                continue
            if name not in outputs:
                done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, check=False)
                outputs[name] = done.stdout.split("\n")
                if done.returncode != 0:
                    yield f"{page}:{line}: {name} ended with status {done.returncode}: {done.stderr.strip()}"
            at = difference(shown, outputs[name])
            if at is not None:
                printed = "\n".join(outputs[name])
                yield f"{page}:{line + at + 1}: {name} does not print this line here: {shown[at]}\nIt prints:\n{printed}"
    if not outputs:
        yield f"{root}: no page shows what a program prints"


def main():
    root = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).resolve().parent.parent
    found = list(violations(Path(sys.argv[1]), root))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print("outputs: the pages show what the programs print")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
