#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/scaling.md and draws its picture: scripts/draw_scaling.py PROGRAM [--check].

PROGRAM is teach_scaling, which prints the tables. With --check, nothing is written, and a page or picture that differs
is an error.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / "docs/scaling.md", ROOT / "docs/pictures/scaling.svg"
MARKS = ("steps", "sensitivity")
# The columns of the first table with efficiencies: the heading of the line, and its colour.
LINES = {2: ("tables in parts, weak", "#1b6ca8"), 4: ("tables in parts, ids a step ahead, weak", "#16b3a0"),
         6: ("tables in parts, a batch of 65,536, strong", "#d946c8"), 8: ("tables on every rank, weak", "#e07b39")}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 440, 64, 30, 64, 56
INK, FAINT, GRID = "#1c2430", "#5d6878", "#d9dee6"


def rows_of(table):
    """Returns the cells of each row of a Markdown table below its heading."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[2:]]


def text(x, y, words, anchor="start", colour=INK, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{more}>{words}</text>'


def drawing(table):
    """Returns the picture: efficiencies over GPUs, on a logarithmic axis of these."""
    rows = rows_of(table)
    gpus = [row[0] for row in rows]
    at_x = [LEFT + i * (WIDTH - LEFT - RIGHT) / (len(gpus) - 1) for i in range(len(gpus))]

    def at_y(percent):
        return HEIGHT - BOTTOM - percent / 100 * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-size="12" font-family="system-ui, \'Segoe UI\', Roboto, \'DejaVu Sans\', sans-serif">',
           f'<rect width="100%" height="100%" rx="8" fill="#ffffff" stroke="{GRID}"/>',
           text(14, 28, "Predicted efficiency over GPUs, eight a node", more=' font-weight="600" font-size="14"'),
           text(14, 46, "computed, not measured; 100% is one GPU without collectives", colour=FAINT)]
    for percent in range(0, 101, 20):
        y = at_y(percent)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>')
        out.append(text(LEFT - 8, y + 4, f"{percent}%", "end", FAINT))
    for x, count in zip(at_x, gpus):
        out.append(text(x, HEIGHT - BOTTOM + 18, f"{int(count):,}", "middle", FAINT))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "GPUs", "middle", FAINT))
    for place, (column, (name, colour)) in enumerate(LINES.items()):
        values = [int(row[column].rstrip("%")) for row in rows]
        points = " ".join(f"{x:.1f},{at_y(value):.1f}" for x, value in zip(at_x, values))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        for x, count, value in zip(at_x, gpus, values):
            out.append(f'<circle cx="{x:.1f}" cy="{at_y(value):.1f}" r="3.4" fill="{colour}">'
                       f"<title>{name}: {int(count):,} GPUs, {value}%</title></circle>")
        y = TOP + 8 + 18 * place
        out.append(f'<line x1="{WIDTH - 320}" y1="{y - 4}" x2="{WIDTH - 296}" y2="{y - 4}" stroke="{colour}" stroke-width="2.2"/>')
        out.append(text(WIDTH - 288, y, name))
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="teach_scaling")
    parser.add_argument("--check", action="store_true", help="writes nothing, and tells what differs")
    options = parser.parse_args()
    printed = subprocess.run([options.program], check=True, capture_output=True, text=True).stdout
    tables = printed.strip().split("\n\n")
    page = PAGE.read_text(encoding="utf-8")
    for name, table in zip(MARKS, tables, strict=True):
        block = f"<!-- {name}: written by scripts/draw_scaling.py -->\n{table}\n<!-- end of {name} -->"
        page, count = re.subn(rf"<!-- {name}: .*?<!-- end of {name} -->", lambda _: block, page, flags=re.DOTALL)
        if count != 1:
            sys.exit(f"{PAGE}: expected one place between the marks of '{name}', found {count}")
    wrong = []
    for path, content in ((PAGE, page), (PICTURE, drawing(tables[0]))):
        if not options.check:
            path.write_text(content, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != content:
            wrong.append(f"{path}: is not what {options.program} prints; without --check it is written")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
