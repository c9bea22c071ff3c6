#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the built site in headless Chromium: site_test.py FOLDER [--chromium PROGRAM] [--pictures FOLDER].

All pages draw from files, on a wide screen and on a phone, without a script error, a request to another host, a picture
that is missing, or a page wider than the screen. Search finds StreamScope, dark mode is dark, and code has a button that
copies it. Ends with status 77 (skipped) if there is no Chromium.
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "overlap/show"))
from page_test import Browser  # noqa: E402

SCREENS = {"wide": {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False},
           "phone": {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}}
# What is wrong with the page that is open, as a list of sentences.
LOOK = """(() => {
  const wrong = [];
  if (!document.querySelector("h1, #search-results")) wrong.push("has no heading");
  const excess = document.documentElement.scrollWidth - innerWidth;
  if (excess > 1) wrong.push(`is ${excess} pixels wider than the screen`);
  for (const one of document.images)
    if (!one.complete || !one.naturalWidth) wrong.push(`lacks the picture ${one.getAttribute("src")}`);
  return wrong;
})()"""
DARK = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every((part) => part < 80)"
# Waits until the search has ended, and returns the addresses of its results.
# The page lists results one after the other: five are awaited, or all that there are after a while.
RESULTS = """new Promise((done) => {
  const look = () => {
    const found = [...document.querySelectorAll("#search-results li a")].map((one) => one.getAttribute("href"));
    if (found.length >= 5 || performance.now() > 20000) done(found); else setTimeout(look, 20);
  };
  look();
})"""


def findings(browser, site, pictures):
    for screen, size in SCREENS.items():
        browser.call("Emulation.setDeviceMetricsOverride", size)
        for page in sorted(site.rglob("*.html")):
            browser.open(page.as_uri())
            for problem in browser.value(LOOK):
                yield f"{page.relative_to(site)} ({screen}) {problem}"
        browser.open((site / "index.html").as_uri())
        if pictures:
            browser.picture(pictures / f"{screen}.png")
    browser.call("Emulation.clearDeviceMetricsOverride")
    browser.open((site / "index.html").as_uri())
    if browser.value("document.querySelectorAll('button.copybtn').length") < 3:
        yield "index.html: blocks of code have no button that copies them"
    if browser.value(DARK):
        yield "index.html: is dark without being asked to"
    browser.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    browser.open((site / "index.html").as_uri())
    if not browser.value(DARK):
        yield "index.html: is not dark in dark mode"
    if pictures:
        browser.picture(pictures / "dark.png")
    browser.open((site / "search.html").as_uri() + "?q=StreamScope")
    found = browser.value(RESULTS)
    if not any("api/stream/stream_scope.html" in link for link in found[:5]):
        yield f"search.html: the first results for StreamScope are {found[:5]}"
    if pictures:
        browser.picture(pictures / "search.png")
    yield from (f"script error: {error}" for error in dict.fromkeys(browser.errors))
    yield from (f"request to another host: {url}" for url in dict.fromkeys(browser.requests)
                if not url.startswith(("file:", "data:", "about:")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", type=pathlib.Path)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    parser.add_argument("--pictures", type=pathlib.Path)
    options = parser.parse_args()
    if not options.chromium:
        print("SKIPPED: there is no Chromium")
        return 77
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(options.chromium, profile)
        found = list(findings(browser, options.site.resolve(), options.pictures))
        browser.close()
    print("\n".join(found) or "site: all pages draw", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
