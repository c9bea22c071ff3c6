#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the page of msstream-overlap in headless Chromium: it draws, zooms, finds and selects without
a script error, and hostile names stay text.

    page_test.py PAGE.html [--chromium PROGRAM] [--pictures FOLDER]

The page is one that `msstream-overlap FILE --html PAGE.html` wrote. With --pictures, it writes pictures of
what it does. Ends with status 77 (skipped) if there is no Chromium. Speaks the DevTools protocol by
pipes, so that it needs nothing but Python.
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


class Browser:
    """A headless Chromium with one page."""

    def __init__(self, program, profile):
        self.errors = []
        self.count = 0
        commands_out, commands_in = os.pipe()
        answers_out, answers_in = os.pipe()
        for end in (commands_in, answers_out):
            os.set_inheritable(end, False)

        def connect():
            # Chromium reads from descriptor 3 and writes to 4. First out of the way of each other.
            read_end, write_end = os.dup(commands_out), os.dup(answers_in)
            read_end, write_end = os.dup2(read_end, 100), os.dup2(write_end, 101)
            os.dup2(read_end, 3)
            os.dup2(write_end, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--window-size=1500,950", "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands_out)
        os.close(answers_in)
        self.out = os.fdopen(commands_in, "wb")
        self.answers = os.fdopen(answers_out, "rb")
        self.rest = b""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.requests = []

    def message(self):
        while b"\0" not in self.rest:
            part = os.read(self.answers.fileno(), 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self.rest += part
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, parameters=None):
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters or {}}
        if getattr(self, "session", None):
            command["sessionId"] = self.session
        self.out.write(json.dumps(command).encode() + b"\0")
        self.out.flush()
        while True:
            message = self.message()
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def open(self, url):
        self.call("Page.navigate", {"url": url})
        self.value("new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def value(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate",
                           {"expression": expression, "awaitPromise": True, "returnByValue": True})
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def key(self, key, **more):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", {"type": kind, "key": key, **text, **more})

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def picture(self, path):
        self.frame()
        shot = self.call("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(shot["data"]))

    def frame(self):
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def close(self):
        self.process.kill()
        self.process.wait()


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def colours_drawn(browser, of="timeline.canvas"):
    return browser.value(f"""(() => {{
      const c = {of};
      const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
      return seen.size;
    }})()""")


def pixels_of(browser, colour):
    return browser.value(f"""(() => {{
      const canvas = timeline.canvas;
      const {{data}} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let i = 0; i < data.length; i += 4) {{
        if (data[i] === {colour[0]} && data[i + 1] === {colour[1]} && data[i + 2] === {colour[2]}) ++count;
      }}
      return count;
    }})()""")


def try_page(browser, page, pictures):
    def picture(name):
        if pictures:
            browser.picture(pictures / f"{page.stem}_{name}.png")

    browser.open(page.resolve().as_uri())
    browser.frame()
    picture("whole")
    expect(colours_drawn(browser) > 3, "the timeline is empty")
    expect(colours_drawn(browser, "timeline.overview") > 2, "the overview is empty")
    # The causes, the colours and the page's own script, and what each report has.
    expect(browser.value("document.querySelectorAll('script').length") ==
           browser.value("3 + document.querySelectorAll('script.report').length * 2 - reports.length"),
           "a name of the recording became a script")
    expect(not browser.value("window.hostile"), "a name of the recording ran as a script")

    whole = browser.value("timeline.view[1] - timeline.view[0]")
    box = browser.value("(({left, top, width, height}) => [left, top, width, height])(timeline.canvas.getBoundingClientRect())")
    x, y = box[0] + 148 + (box[2] - 148) / 2, box[1] + box[3] / 2
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
    browser.frame()
    expect(browser.value("timeline.view[1] - timeline.view[0]") < whole / 1.5, "the wheel does not zoom")
    begin = browser.value("timeline.view[0]")
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x + 90, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x + 90, y, button="left", clickCount=1)
    expect(browser.value("timeline.view[0]") < begin, "dragging does not pan")
    browser.value("timeline.canvas.focus()")
    length = browser.value("timeline.view[1] - timeline.view[0]")
    browser.key("+")
    expect(browser.value("timeline.view[1] - timeline.view[0]") < length, "the key + does not zoom")
    browser.key("0")
    expect(browser.value("timeline.view[1] - timeline.view[0]") == whole, "the key 0 does not show all")

    # An activity, in the middle of the view, by a click.
    browser.value("select({row: Math.floor(report.activities.begin.length / 2)}); zoomToSelection()")
    browser.frame()
    row = browser.value("selection.row")
    at = browser.value("[timeline.x((report.activities.begin[selection.row] + report.activities.end[selection.row]) / 2),"
                       " timeline.yOf(selection.row)]")
    browser.value("select(null)")
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(kind, box[0] + at[0], box[1] + at[1], button="left", clickCount=1)
    browser.frame()
    expect(browser.value("selection && selection.row") == row, "a click does not select the activity")
    expect(browser.value("document.getElementById('details').textContent.includes('Why then')"),
           "the details of an activity lack why it started")
    picture("selected")

    if browser.value("report.findings.length") > 0:
        browser.key("0")
        browser.value("document.querySelector('[data-finding]').click()")
        browser.frame()
        expect(browser.value("(() => { const loss = lossesByLength(report.findings[0])[0];"
                             " const {begin, end} = report.findings[0].track;"
                             " return timeline.finding === report.findings[0] &&"
                             " timeline.view[0] <= begin[loss] && timeline.view[1] >= end[loss]; })()"),
               "a finding does not jump to its largest loss")
        picture("finding")

    expect(browser.value("timeline.items.every(({track}) => !track || "
                         "track.begin.every((begin, i) => i === 0 || begin >= track.end[i - 1]))"),
           "rows of a track overlap")
    if browser.value("report.callRows.begin.length") > 0:
        browser.key("0")
        # The name of a call, which no activity has.
        call = browser.value("report.names[report.callRows.name[0]]")
        browser.value(f"search({json.dumps(call)})")
        if browser.value("timeline.found.calls.length") > 0:
            browser.value("select({call: timeline.found.calls[0]}); zoomToSelection(); select(null)")
            browser.frame()
            expect(pixels_of(browser, (255, 216, 77)) > 0, "found calls are not marked")
        browser.value("search('')")
        browser.value("(() => { const outline = timeline.outlineCall; timeline.outlined = [];"
                      " timeline.outlineCall = function(context, call, colour) {"
                      " this.outlined.push([call, outline.call(this, context, call, colour) !== null]); }; })()")
        if browser.value("report.callRows.range.some((range) => range > 0)"):
            browser.value("select({call: report.callRows.range.findIndex((range) => range > 0)})")
            expect(browser.value("document.getElementById('details').textContent.includes('In range')"),
                   "a selected call does not say in which range it was made")
        if browser.value("report.callRows.code.some((line) => line > 0)"):
            browser.value("select({call: report.callRows.code.findIndex((line) => line > 0)})")
            expect(browser.value("/At.*[(][0-9]+[)]: /.test(document.getElementById('details').textContent)"),
                   "a selected call does not say at which line it was made")
        browser.value("select({call: 0})")
        browser.frame()
        expect(browser.value("timeline.outlined.some(([call, isShown]) => call === 0 && isShown)"),
               "the selected call has no frame")
        browser.value("select(null); delete timeline.outlineCall")

    name = browser.value("shortName(report.names[report.activities.name[0]]).slice(0, 12)")
    browser.key("0")
    browser.value("document.getElementById('search').focus()")
    browser.call("Input.insertText", {"text": name})
    browser.key("Enter", code="Enter", windowsVirtualKeyCode=13)
    browser.frame()
    expect(browser.value("selection !== null && timeline.found.rows.length > 0"), "the search finds nothing")
    picture("search")
    browser.value("document.activeElement.blur()")
    browser.key("t")
    browser.frame()
    expect(browser.value("document.documentElement.dataset.theme") == "dark", "the key t does not darken")
    picture("dark")
    times = browser.value("""(async () => {
      const times = [];
      timeline.setView(timeline.begin, timeline.end);
      for (let i = 0; i < 20; ++i) {
        timeline.zoom(1.4);
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        times.push(timeline.drawingTime);
      }
      return times.sort((a, b) => a - b);
    })()""")
    expect(not browser.errors, f"errors of the page: {browser.errors}")
    outside = [url for url in browser.requests if not url.startswith(("file:", "data:"))]
    expect(not outside, f"the page asks for {outside}")
    rows = browser.value("report.activities.begin.length")
    print(f"{page.name}: {rows} activities; a frame takes {times[10]:.1f} ms, the slowest {times[-1]:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    parser.add_argument("--pictures", type=pathlib.Path)
    arguments = parser.parse_args()
    if not arguments.chromium:
        print("skipped: there is no chromium (apt-get install chromium)")
        return 77
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    for page in arguments.pages:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = Browser(arguments.chromium, profile)
            try:
                try_page(browser, page, arguments.pictures)
            finally:
                browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
