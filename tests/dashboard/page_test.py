#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the page of --dashboard in headless Chromium: it draws, it updates, it has no script error, it
asks no other host, hostile names stay text, keys work, and the end of the training is shown.

    page_test.py TEST_DASHBOARD [--picture FILE.png]

TEST_DASHBOARD is the test program of the room, which serves a training with hostile names. Ends with
status 77 (skipped) if there is no Chromium.
"""
import argparse
import os
import pathlib
import re
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
    for canvas in ("losses", "metrics", "memory", "group-memory", "timeline"):
        expect(colours_drawn(browser, f"document.getElementById('{canvas}')") > 1, f"{canvas} is empty")
    step = browser.value("state.newest.step")
    shown = browser.value("document.getElementById('step').textContent")
    wait_for(browser, f"state.newest.step > {step} && document.getElementById('step').textContent !== '{shown}'",
             "the page does not update")
    wait_for(browser, "state.newest.rate !== null", "there is no rate")
    expect("recorded" in browser.value("document.getElementById('timeline-title').textContent"),
           "the page does not say how old the timeline is")
    expect(browser.value("document.getElementById('connection').textContent") == "connected", "not connected")
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
    x, y = browser.value("(({left, top, width}) => [left + 0.4 * width, top + 8])"
                         "(document.getElementById('timeline').getBoundingClientRect())")
    browser.mouse("mouseMoved", x, y)
    wait_for(browser, "document.getElementById('operation').textContent.includes('µs')",
             "an operation under the mouse is not named")
    try_values(browser)
    try_keys(browser)
    try_many_lanes(browser)
    try_failing_to_draw(browser)
    if picture:
        browser.value("scrollTo(0, 0)")
        browser.picture(picture)
    expect(not browser.errors, f"errors of the page: {browser.errors}")
    outside = [asked for asked in browser.requests if not asked.startswith((url, "data:"))]
    expect(not outside, f"the page asks for {outside}")


def point_on(browser, canvas, across, down):
    """Moves the pointer to a place on a canvas, given as parts of its width and height."""
    x, y = browser.value(f"""((canvas) => {{
      canvas.scrollIntoView({{block: "center"}});
      const {{left, top, width, height}} = canvas.getBoundingClientRect();
      return [left + {across} * width, top + {down} * height];
    }})(document.getElementById('{canvas}'))""")
    browser.mouse("mouseMoved", x, y)


def text_of(browser, name):
    return browser.value(f"document.getElementById('{name}').textContent")


def try_values(browser):
    """A chart says what is under the pointer, and keeps and explains extremes."""
    expect(browser.value("Math.max(...state.newest.losses.high)") == 4, "the highest loss is lost")
    expect(browser.value("Math.max(...state.newest.losses.y)") < 4, "the losses are no means")
    note = text_of(browser, "losses-points")
    expect(re.match(r"A point stands for \d+ steps: the line is their mean, and the band", note), f"points: {note}")
    drawn = browser.value("""(() => {
      const canvas = document.getElementById("losses");
      const context = canvas.getContext("2d");
      const top = context.getImageData(61, 0, canvas.width - 61, 40).data;
      let blue = 0;
      for (let i = 0; i < top.length; i += 4) blue += top[i + 3] > 30 && top[i + 2] > top[i] + 60;
      return blue;
    })()""")
    expect(drawn > 10, f"the band does not reach the highest loss: {drawn} pixels")
    point_on(browser, "losses", 0.6, 0.5)
    wait_for(browser, "/^steps [\\d,]+ to [\\d,]+: [\\d.]+, [\\d.]+ to [\\d.]+$/"
                      ".test(document.getElementById('losses-value').textContent)",
             "the loss under the pointer is not shown")
    point_on(browser, "memory", 0.6, 0.5)
    wait_for(browser, "document.getElementById('memory-value').textContent.includes('reserved 4.0 MiB')",
             "the memory under the pointer is not shown")
    expect(text_of(browser, "losses-value") == "", "the loss is shown without the pointer")
    point_on(browser, "group-memory", 0.6, 0.5)
    wait_for(browser, f"document.getElementById('group-memory-value').textContent.includes({HOSTILE!r})",
             "the memory of a group under the pointer is not shown")
    heads = browser.value("['times', 'memory-numbers', 'groups', 'longest'].map((id) =>"
                          " document.querySelectorAll(`#${id} tbody tr > th[scope=row]:first-child`).length)")
    expect(heads == [5, 3, 1, 3], f"headers of rows: {heads}")
    longest = browser.value("[...document.getElementById('longest').tBodies[0].rows].map((row) =>"
                            " row.cells[3].textContent)")
    expect(longest == ["7 µs", "4 µs", "1 µs"], f"the longest operations: {longest}")


def try_keys(browser):
    """The timeline can be stepped through, zoomed and moved without a mouse."""
    browser.value("document.getElementById('timeline').focus()")
    expect(browser.value("document.activeElement.id") == "timeline", "the timeline takes no focus")
    expect(browser.value("document.getElementById('operation').getAttribute('aria-live')") == "polite",
           "a screen reader does not read the operation")

    def press(key):
        return browser.value(f"""(() => {{
          const event = new KeyboardEvent("keydown", {{key: "{key}", bubbles: true, cancelable: true}});
          const isTaken = !document.getElementById("timeline").dispatchEvent(event);
          return [isTaken, document.getElementById("operation").textContent, view.end - view.begin];
        }})()""")

    def expect_at(key, what):
        taken, text, _ = press(key)
        expect(taken and what in text, f"{key} goes to {text}, expected {what}")

    expect_at("ArrowRight", "group 0 compute (stream 0 @ 1): begins at 0 µs, takes 4 µs")
    expect_at("ArrowRight", "(stream 0 @ 2): begins at 4 µs, takes 1 µs")
    expect_at("ArrowRight", "(stream 0 @ 2)")
    expect_at("Home", "(stream 0 @ 1)")
    expect_at("ArrowDown", "(stream 1 @ 1): begins at 2 µs, takes 7 µs")
    expect_at("ArrowUp", "(stream 0 @ 1)")
    expect_at("End", "(stream 0 @ 2)")
    shown = press("+")[2]
    expect(shown < 9, f"+ does not zoom: {shown}")
    step = browser.value("state.timelineStep")
    wait_for(browser, f"state.newest.timeline_step > {step} && !document.getElementById('timeline-newer').hidden",
             "the page does not say that there is a newer timeline")
    expect(browser.value("state.timelineStep") == step, "the timeline that somebody looks at is replaced")
    expect(press("-")[2] > shown, "- does not zoom out")
    expect(not press("a")[0], "the timeline takes a key that means nothing")
    zoomed = browser.value("""(() => {
      const canvas = document.getElementById("timeline");
      const event = new WheelEvent("wheel", {deltaY: -300, bubbles: true, cancelable: true});
      const isTaken = !canvas.dispatchEvent(event);
      return [isTaken, view.end - view.begin];
    })()""")
    expect(zoomed[0] and zoomed[1] < 9, f"the wheel does not zoom: {zoomed}")
    press("Escape")
    wait_for(browser, f"state.timelineStep > {step} && document.getElementById('timeline-newer').hidden",
             "the newer timeline is not shown")
    browser.value("document.activeElement.blur()")


def try_the_end(browser):
    """The page says how the training has ended, and keeps that when the program is gone."""
    wait_for(browser, f"document.getElementById('connection').textContent === 'diverged at step 7 of ' + {HOSTILE!r}",
             "the page does not say how the training has ended")
    expect(browser.value("document.getElementById('connection').className") == "diverged", "no class for the end")
    expect(text_of(browser, "loss") == "NaN", f"the loss that is not finite is {text_of(browser, 'loss')}")
    expect(browser.value("document.title").endswith("diverged at step 7 of " + HOSTILE), "the title lacks the end")


def try_many_lanes(browser):
    """A timeline of many streams has a bar on each line, and says what it leaves out."""
    drawn = browser.value("""(() => {
      const kept = state.timeline;
      state.timeline = {length_us: 10, lanes: Array.from({length: 200}, (_, i) => `lane ${i}`), names: ["a"],
                        spans: Array.from({length: 200}, (_, i) => [i, 0, 0, 10]), left_out: 4321};
      drawTimeline();
      const canvas = document.getElementById("timeline");
      const pixels = canvas.getContext("2d").getImageData(canvas.width - 40, 0, 1, canvas.height).data;
      let bars = 0;
      for (let y = 1; y < canvas.height; ++y) bars += pixels[4 * y + 3] > 200 && pixels[4 * y - 1] <= 200;
      const note = document.getElementById("operations-left-out");
      const found = [bars, note.hidden, note.textContent, canvas.parentElement.clientHeight < canvas.clientHeight];
      state.timeline = kept;
      drawTimeline();
      return [...found, note.hidden];
    })()""")
    expect(drawn[0] >= 199, f"of 200 lanes, {drawn[0]} have a bar")
    expect(not drawn[1] and "4,321 later ones are left out" in drawn[2], f"what is left out is not said: {drawn}")
    expect(drawn[3], "a timeline of 200 lanes does not scroll")
    expect(drawn[4], "the page says that operations are left out when none are")


def try_failing_to_draw(browser):
    """If drawing fails, the page says so, and asks again."""
    browser.value("window.drawGood = drawCurves; drawCurves = () => { throw new Error('planted'); }; 0")
    wait_for(browser, "document.getElementById('connection').textContent.includes('cannot draw the numbers: planted')",
             "the page does not say that it cannot draw")
    asked = browser.value("state.requests")
    wait_for(browser, f"state.requests > {asked} + 1", "the page asks no more after an error")
    browser.value("drawCurves = window.drawGood; 0")
    wait_for(browser, "document.getElementById('connection').textContent === 'connected'", "the page does not recover")
    browser.errors[:] = [error for error in browser.errors if "planted" not in str(error)]


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
            server.stdin.write("e")
            server.stdin.flush()
            try_the_end(browser)
            server.stdin.close()
            server.stdout.read()
            server.wait()
            browser.value("update()")
            try_the_end(browser)
            browser.value("state.newest.end = null; update()")  # as if the program had been killed
            wait_for(browser, "document.getElementById('connection').textContent.startsWith('no answer')",
                     "the page does not say that the program does not answer")
        finally:
            browser.close()
            server.kill()
    print(f"{arguments.program.name}: the page draws, updates and keeps names text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
