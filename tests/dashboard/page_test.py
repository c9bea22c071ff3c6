#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the page of --dashboard in headless Chromium: it draws, it updates, it has no script error, it
asks no other host, and hostile names stay text.

    page_test.py TEST_DASHBOARD [--picture FILE.png]

TEST_DASHBOARD is the test program of the room, which serves a training with hostile names. Ends with
status 77 (skipped) if there is no Chromium.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "overlap/show"))
from page_test import Browser, colours_drawn, expect  # noqa: E402

HOSTILE = '<img src=x onerror="window.hostile=1"><script>window.hostile=1</script>'


def wait_for(browser, condition, what):
    expect(browser.value(f"""new Promise((done) => {{
      const begin = Date.now();
      const look = () => {{
        if ({condition}) done(true);
        else if (Date.now() - begin > 30000) done(false);
        else setTimeout(look, 50);
      }};
      look();
    }})"""), what)


def try_page(browser, url, picture):
    browser.open(url)
    wait_for(browser, "state.requests >= 2 && state.timeline !== null", "the page does not get numbers")
    browser.value("draw()")
    for canvas in ("losses", "metrics", "memory", "timeline"):
        expect(colours_drawn(browser, f"document.getElementById('{canvas}')") > 1, f"{canvas} is empty")
    step = browser.value("state.newest.step")
    shown = browser.value("document.getElementById('step').textContent")
    wait_for(browser, f"state.newest.step > {step} && document.getElementById('step').textContent !== '{shown}'",
             "the page does not update")
    wait_for(browser, "state.newest.rate !== null", "there is no rate")
    browser.value("draw()")
    expect(colours_drawn(browser, "document.getElementById('rates')") > 1, "the rates are empty")
    texts = browser.value("['program', 'what', 'part', 'metric-names', 'groups'].map((id) =>"
                          " document.getElementById(id).textContent)")
    expect(all(HOSTILE in text for text in texts), f"a hostile name is not shown as text: {texts}")
    expect("rank 0 of 2" in texts[0], "the page does not say that there are two ranks")
    expect(browser.value("document.querySelectorAll('img, main script, h1 script').length") == 0,
           "a hostile name became an element")
    expect(not browser.value("window.hostile"), "a hostile name ran as a script")
    browser.value("document.getElementById('timeline').scrollIntoView()")
    x, y = browser.value("(({left, top, width}) => [left + 0.7 * width, top + 8])"
                         "(document.getElementById('timeline').getBoundingClientRect())")
    browser.mouse("mouseMoved", x, y)
    wait_for(browser, "document.getElementById('operation').textContent.includes('µs')",
             "an operation under the mouse is not named")
    if picture:
        browser.value("scrollTo(0, 0)")
        browser.picture(picture)
    expect(not browser.errors, f"errors of the page: {browser.errors}")
    outside = [asked for asked in browser.requests if not asked.startswith((url, "data:"))]
    expect(not outside, f"the page asks for {outside}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("--picture", type=pathlib.Path)
    arguments = parser.parse_args()
    if not arguments.chromium:
        print("skipped: there is no chromium (apt-get install chromium)")
        return 77
    server = subprocess.Popen([arguments.program, "--gtest_filter=DashboardServer.serves_the_page_test"],
                              env=os.environ | {"MSSTREAM_TEST_SERVES": "1"}, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    url = next((line.strip() for line in server.stdout if line.startswith("http://")), None)
    expect(url, "the test program serves no page")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(arguments.chromium, profile)
        try:
            try_page(browser, url, arguments.picture)
            # The page says so when the program ends.
            server.stdin.close()
            server.stdout.read()
            server.wait()
            wait_for(browser, "document.getElementById('connection').textContent.startsWith('no answer')",
                     "the page does not say that the program has ended")
        finally:
            browser.close()
            server.kill()
    print(f"{arguments.program.name}: the page draws, updates and keeps names text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
