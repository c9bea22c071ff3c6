#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the built site: docs/site/check_links.py FOLDER.

Each link leads to a file and an anchor of the site, or to a web address of the form https://host/… Pages and their styles
load nothing from another host. Each picture has a text in its place.
"""
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FROM_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^)'\"]+)")
LOADS = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors, self.silent = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in LOADS and values.get(LOADS[tag]):
            self.loaded.append(values[LOADS[tag]])
        if tag == "img" and "alt" not in values:
            self.silent.append(values.get("src"))


def problem_of(site, pages, page, link):
    """Returns what is wrong with a link; None if it leads somewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None if re.fullmatch(r"(https?://[\w.-]+\.\w+(:\d+)?(/\S*)?|mailto:\S+)", link) else "is no web address"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return "leads to no file"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in pages[target].anchors:
        return f"leads to no anchor of {target.relative_to(site)}"
    return None


def violations(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in dict.fromkeys(page.links):
            if problem := problem_of(site, pages, path, link):
                yield f"{name}: the link '{link}' {problem}"
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address} from another host"
        for picture in page.silent:
            yield f"{name}: the picture {picture} has no text in its place"
    for style in site.rglob("*.css"):
        for address in FROM_STYLE.findall(style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)}: loads {address} from another host"
    if not pages:
        yield f"{site}: there is no page"


def main():
    site = Path(sys.argv[1]).resolve()
    found = list(violations(site))
    print("\n".join(found) or "links: all lead somewhere", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
