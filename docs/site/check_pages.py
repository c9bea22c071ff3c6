#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the staged pages of the site, before Sphinx reads them: docs/site/check_pages.py FOLDER.

Each link and each picture leads to a file of the folder, and its anchor to a heading, or to a mark such as
"(api-device)=", which is unique. Each list of contents names pages that there are. check_links.py checks the built site.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from check_snippets import LINK, headings  # noqa: E402
from report_findings import report_findings  # noqa: E402

MARK = re.compile(r"^\(([\w-]+)\)=$")
OPENING = re.compile(r"^ *(`{3,})")
CONTENTS = re.compile(r"^ *```\{toctree\}$")


def prose_of(text):
    """Yields the number of each line outside blocks of code, and the line. A block may have shorter fences inside."""
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        opening = OPENING.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opening:
            fence = opening.group(1)
        else:
            yield number, re.sub(r"`[^`]*`", "``", line)


def contents_of(text):
    """Yields the number of each line of a list of contents that names a page, and the page without its ending."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if CONTENTS.match(line):
            inside = True
        elif line.strip() == "```":
            inside = False
        elif inside and (name := re.fullmatch(r"(?:.*<)?([\w/-]+)>?", line.strip())):
            yield number, name[1]


def violations(folder):
    folder = Path(folder).resolve()
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.md"))}
    marks, places = {}, {}
    for path, text in texts.items():
        found = marks[path] = set()
        for number, line in prose_of(text):
            if mark := MARK.match(line):
                place = f"{path.relative_to(folder)}:{number}"
                if mark[1] in places:
                    yield f"{place}: the anchor '{mark[1]}' is at {places[mark[1]]} too"
                places[mark[1]] = place
                found.add(mark[1])
    if not texts:
        yield f"{folder}: there are no pages"
    for path, text in texts.items():
        name = path.relative_to(folder)
        for number, line in prose_of(text):
            for file, anchor in LINK.findall(line):
                if re.match(r"\w+:", file):
                    continue
                target = (path.parent / file).resolve() if file else path
                if not target.exists():
                    yield f"{name}:{number}: there is no '{file}'"
                elif anchor and target in texts:
                    known = marks[target] if file else places  # marks are known to all pages
                    if anchor not in known and anchor not in headings(texts[target]):
                        yield f"{name}:{number}: there is no anchor '#{anchor}' in '{file or name}'"
        for number, page in contents_of(text):
            if not (path.parent / f"{page}.md").is_file():
                yield f"{name}:{number}: there is no page '{page}'"


if __name__ == "__main__":
    sys.exit(report_findings(violations, "pages: all links lead somewhere"))
