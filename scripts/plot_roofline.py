#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how close the operations come to the bandwidth of the device's memory, as SVG.

plot_roofline.py FOLDER [--out FOLDER]

FOLDER holds the JSON of scripts/benchmark.sh, compressed or not. For each of the suites embedding, segment, rows and jagged,
roofline_<suite>.svg has a line for each operation: its useful GB/s from the smallest to the largest repetition, those of
PyTorch in the same run, and its share of the roof, which is the bandwidth of a copy on the device. Operations whose data
comes from the cache can exceed the roof.
"""
import argparse
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from summarise_benchmarks import OPERATIONS, case_of, read_json, read_suite, stored, torch_name

ROW, LEFT, RIGHT, TOP, BOTTOM, WIDTH = 18, 330, 120, 64, 34, 1060
OURS, THEIRS, ROOF, INK, GRID = "#1b6ca8", "#e07b39", "#b3261e", "#222", "#ddd"


class Axis:
    """A logarithmic axis of GB/s in whole decades, from left to right."""

    def __init__(self, values):
        self.low = 10 ** math.floor(math.log10(min(values)))
        self.high = 10 ** math.ceil(math.log10(max(values)))

    def at(self, value):
        share = math.log10(value / self.low) / math.log10(self.high / self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def ticks(self):
        decade = self.low
        while decade <= self.high:
            yield from (decade * step for step in (1, 2, 5) if decade * step <= self.high)
            decade *= 10


def text(x, y, words, anchor="start", colour=INK, size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(words)}</text>'


def line(x1, y1, x2, y2, colour, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def dot(x, y, colour, words):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"><title>{escape(words)}</title></circle>'


def drawing(title, device, rows, torch):
    rows = {name: row for name, row in rows.items() if "GBps" in row}
    roof = max(row["copy_GBps"].median for row in rows.values())
    bytes_of = {name: row["GBps"].median * row["time_ns"].median for name, row in rows.items()}
    theirs = {name: [bytes_of[name] / ns for ns in torch[torch_name(name)]] for name in rows if torch_name(name) in torch}
    axis = Axis([row["GBps"].median for row in rows.values()] + [value for values in theirs.values() for value in values] + [roof])
    height = TOP + ROW * len(rows) + BOTTOM
    bottom = height - BOTTOM
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             text(16, 24, f"{title}, {device}", size=16),
             text(16, 44, "useful GB/s; a dot the median, a bar the repetitions"),
             dot(LEFT + 80, 40, OURS, "msstream"), text(LEFT + 90, 44, "msstream"),
             dot(LEFT + 180, 40, THEIRS, "PyTorch"), text(LEFT + 190, 44, "PyTorch"),
             line(LEFT + 270, 40, LEFT + 290, 40, ROOF, 2), text(LEFT + 296, 44, f"a copy on the device, {roof:,.0f} GB/s")]
    for tick in axis.ticks():
        parts += [line(axis.at(tick), TOP, axis.at(tick), bottom, GRID),
                  text(axis.at(tick), bottom + 16, f"{tick:,.0f}", "middle", size=10)]
    parts.append(line(axis.at(roof), TOP, axis.at(roof), bottom, ROOF, 2))
    for number, (name, row) in enumerate(rows.items()):
        y = TOP + ROW * (number + 0.5)
        parts.append(text(LEFT - 8, y + 4, case_of(name), "end", size=11))
        for colour, values, who in ((THEIRS, theirs.get(name), "PyTorch"), (OURS, row["GBps"].values, "msstream")):
            if values:
                middle = sorted(values)[len(values) // 2]
                parts += [line(axis.at(min(values)), y, axis.at(max(values)), y, colour, 3),
                          dot(axis.at(middle), y, colour, f"{who}: {middle:,.0f} GB/s")]
        parts.append(text(WIDTH - RIGHT + 8, y + 4, f"{row['GBps'].median:,.0f}   {row['of_copy'].median:.2f}x", size=11))
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="what scripts/benchmark.sh left")
    parser.add_argument("--out", type=Path, help="where the drawings go; by default the same folder")
    options = parser.parse_args()
    out = options.out or options.folder
    drawn = 0
    try:
        torch = read_json(options.folder, "torch_ops").get("rows", {})
        for suite, title in OPERATIONS.items():
            if stored(options.folder, suite):
                context, rows = read_suite(options.folder, suite)
                (out / f"roofline_{suite}.svg").write_text(drawing(title, context["device"], rows, torch), encoding="utf-8")
                drawn += 1
    except (OSError, ValueError) as problem:
        sys.exit(f"plot_roofline: {problem}")
    if not drawn:
        sys.exit(f"plot_roofline: {options.folder} has no results of the suites {', '.join(OPERATIONS)}")


if __name__ == "__main__":
    main()
