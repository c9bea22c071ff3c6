#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the table of the main numbers of docs/benchmarks.md as bars: scripts/draw_main_numbers.py [--check]

Writes docs/pictures/main-numbers.svg: a bar for each row that has a baseline, whose length says how many times better
msstream is, on a logarithmic scale. With --check, only says whether the picture is that of the table.
"""
import argparse
import math
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/benchmarks.md"
PICTURE = ROOT / "docs/pictures/main-numbers.svg"
HEADING = "## The main numbers"
SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
# A number as a cell begins with it, and its unit, if it has one.
NUMBER = re.compile(r"([\d,]+(?:\.\d+)?)(?: (ns|µs|ms|s)\b)?( a second)?")
ROW, LEFT, TOP, BOTTOM, WIDTH, RIGHT = 24, 640, 54, 36, 1060, 70
BAR, INK, GRID = "#1b6ca8", "#222", "#ddd"


class BadTable(Exception):
    pass


def rows_of(page):
    """Returns the rows of the table: what was measured, and the two cells of numbers."""
    found = page.split(HEADING, 1)
    if len(found) != 2:
        raise BadTable(f"no heading '{HEADING}'")
    rows = []
    for line in found[1].split("\n## ", 1)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 3 and cells[0] and not cells[0].startswith("---"):
            rows.append(cells)
    if not rows:
        raise BadTable(f"no table below '{HEADING}'")
    return rows


def times_better(ours, theirs):
    """Returns how many times better one cell is than the other: less time, less memory, or more a second."""
    numbers = [NUMBER.match(cell) for cell in (ours, theirs)]
    if None in numbers:
        raise BadTable(f"expected numbers, found '{ours}' and '{theirs}'")
    is_rate = numbers[0][3] is not None
    if (numbers[0][2] is None) != (numbers[1][2] is None) or (is_rate and numbers[1][2]):
        raise BadTable(f"expected equal units, found '{ours}' and '{theirs}'")
    mine, other = (float(found[1].replace(",", "")) * SECONDS.get(found[2], 1.0) for found in numbers)
    return mine / other if is_rate else other / mine


def text(x, y, words, anchor="start", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}" font-size="{size}">{escape(words)}</text>'


def shown(times):
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}"


def plain(words):
    """Returns a cell without the marks of code, cut to the width of the picture."""
    words = words.replace("`", "")
    return words if len(words) <= 98 else words[:97].rstrip(" ,:") + "…"


def drawing(rows):
    """Returns the picture of rows; those without a baseline have no bar, and are left out."""
    bars = [(name, ours, theirs, times_better(ours, theirs)) for name, ours, theirs in rows if theirs]
    end = 10 ** math.ceil(math.log10(max(times for *_, times in bars)))
    height = TOP + ROW * len(bars) + BOTTOM

    def at(times):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(max(times, 1.0)) / math.log10(end)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             text(16, 24, "The main numbers: how many times better than the baseline", size=16),
             text(16, 42, "less time, less memory, or more answers a second; each pair of one run on an H200")]
    tick = 1
    while tick <= end:
        parts.append(f'<line x1="{at(tick):.1f}" y1="{TOP}" x2="{at(tick):.1f}" y2="{height - BOTTOM}" stroke="{GRID}"/>')
        parts.append(text(at(tick), height - BOTTOM + 16, f"{tick:,}", "middle", 10))
        tick *= 10
    for number, (name, ours, theirs, times) in enumerate(bars):
        y = TOP + ROW * number
        parts.append(text(LEFT - 8, y + 16, plain(name), "end", 11))
        parts.append(f'<rect x="{LEFT}" y="{y + 4}" width="{at(times) - LEFT:.1f}" height="{ROW - 8}" fill="{BAR}">'
                     f"<title>{escape(f'{ours}; baseline {theirs}'.replace('`', ''))}</title></rect>")
        parts.append(text(at(times) + 6, y + 16, shown(times), size=11))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    try:
        picture = drawing(rows_of(PAGE.read_text(encoding="utf-8")))
    except BadTable as error:
        sys.exit(f"{PAGE.relative_to(ROOT)}: {error}")
    if not check:
        PICTURE.write_text(picture, encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit(f"{PICTURE.relative_to(ROOT)} is not that of the table; scripts/draw_main_numbers.py draws it")


if __name__ == "__main__":
    main()
