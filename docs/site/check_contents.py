#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the contents of the site name every page, and no page that is gone: docs/site/check_contents.py [root]."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from check_snippets import pages_of  # noqa: E402
from report_findings import report_findings  # noqa: E402

LISTS = {Path("docs/site/contents.txt"): Path("."), Path("docs/tour/index.md"): Path("docs/tour")}
MADE = {"api/index"}  # from the comments of the headers


def listed(root):
    """Yields each page that a list of contents names, without its ending, and the list."""
    for file, folder in LISTS.items():
        for block in re.findall(r"```\{toctree\}\n(.*?)```", (root / file).read_text(encoding="utf-8"), re.DOTALL):
            for line in block.split("\n"):
                if name := re.fullmatch(r"(?:.*<)?([\w/-]+)>?", line.strip()):
                    yield (folder / name[1]).as_posix(), file


def violations(root):
    pages = {page.relative_to(root).with_suffix("").as_posix() for page in pages_of(root)}
    named = dict(listed(root))
    for page in sorted(pages - set(named) - {"README"}):
        yield f"{page}.md: no list of contents names it; docs/site/contents.txt has those of the site"
    for page in sorted(set(named) - pages - MADE):
        yield f"{named[page]}: {page}.md does not exist"


if __name__ == "__main__":
    sys.exit(report_findings(violations, "contents: they name every page"))
