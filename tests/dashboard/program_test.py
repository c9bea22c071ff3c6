#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests --dashboard of whole programs: program_test.py train_wdl=PATH train_branches=PATH…

Each program trains, is watched by a client, and ends by SIGINT, at its end, by a loss that is not finite, and by an
error: a client learns which. A port in use and a bad one are errors before the work begins, and the losses do not
depend on the option.
"""
import http.client
import json
import math
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

SMALL = {
    "train_wdl": ["--rows", "3000", "--batch", "500", "--buckets", "64", "--embedding-dim", "4", "--layers", "16"],
    "train_ple": ["--rows", "3000", "--batch", "500", "--buckets", "64"],
    "train_branches": ["--width", "32", "--layers", "4"],
    "train_rerank": ["--queries", "300", "--batch", "50"],
    "train_dlrm": ["--rows", "2000", "--batch", "100", "--max-rows", "50", "--max-hotness", "3", "--dimension", "4",
                   "--bottom", "8", "--top", "8,1", "--cross-rank", "4"],
}
LONG = {
    "train_wdl": ["--epochs", "100000"],
    "train_ple": ["--epochs", "100000"],
    "train_branches": ["--steps", "1000000000"],
    "train_rerank": ["--epochs", "100000"],
    "train_dlrm": ["--epochs", "100000"],
}
MOST_SECONDS = 120
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MSSTREAM_")}


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def run(program, *arguments):
    return subprocess.run([program, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=MOST_SECONDS,
                          check=False)


def watch(name, program, *more):
    """Trains until a client has seen all parts of the page, and then ends by SIGINT."""
    training = subprocess.Popen([program, "--runtime", "host", "--dashboard", "--quiet", *SMALL[name], *LONG[name], *more],
                                env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    limit = threading.Timer(MOST_SECONDS, training.kill)
    limit.start()
    try:
        url = next((line.split()[-1] for line in training.stderr if line.startswith("dashboard: ")), None)
        expect(url, f"{name}: no address is printed")
        while True:
            state = json.load(urllib.request.urlopen(url + "state.json", timeout=30))
            timeline = json.load(urllib.request.urlopen(url + "timeline.json", timeout=30))
            has_metrics = bool(state["metrics"]) or name == "train_branches"
            if state["step"] > 3 and state["memory"] and timeline["spans"] and state["step_ms"] and has_metrics:
                break
        expect(state["program"] == name, f"{name}: {state['program']}")
        losses, steps = state["losses"]["y"], state["losses"]["x"]
        expect(all(isinstance(loss, float) and math.isfinite(loss) for loss in [state["loss"], *losses]),
               f"{name}: losses {losses}")
        expect(all(a < b for a, b in zip(steps, steps[1:])) and steps[-1] == state["step"],
               f"{name}: steps {steps}, the newest {state['step']}")
        expect(state["memory"]["groups"], f"{name}: no memory by group")
        expect(any("compute" in lane for lane in timeline["lanes"]), f"{name}: {timeline['lanes']}")
        training.send_signal(signal.SIGINT)
        expect(training.wait(timeout=MOST_SECONDS) == -signal.SIGINT, f"{name}: ended with {training.returncode}")
        return state
    finally:
        limit.cancel()
        training.kill()
        training.wait()


def end_of(program, *arguments, most_file_bytes=None):
    """Watches a program until it has ended; returns the last state that it showed, and its exit status."""
    def limit_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows too large is an error, and no signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, most_file_bytes))

    deadline = time.monotonic() + MOST_SECONDS
    while time.monotonic() < deadline:
        training = subprocess.Popen([program, "--runtime", "host", "--dashboard", "--quiet", *arguments],
                                    env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                                    preexec_fn=limit_files if most_file_bytes else None)
        limit = threading.Timer(MOST_SECONDS, training.kill)
        limit.start()
        state = None
        try:
            url = next((line.split()[-1] for line in training.stderr if line.startswith("dashboard: ")), None)
            expect(url, f"{program} {arguments}: no address is printed")
            while state is None or state["end"] is None:
                state = json.load(urllib.request.urlopen(url + "state.json", timeout=30))
            return state, training.wait(timeout=MOST_SECONDS)
        except (urllib.error.URLError, ConnectionError, http.client.HTTPException, ValueError):
            # A program waits for a client three seconds, and for none at all if nobody has asked: on a busy machine it
            # may have ended before this client asks, or answered half. A program that never tells its end fails below.
            training.wait(timeout=MOST_SECONDS)
        finally:
            limit.cancel()
            training.kill()
            training.wait()
    raise AssertionError(f"{program} {arguments}: never told how it ended")


def ends(name, program):
    steps = ["--steps", "1000"] if name == "train_branches" else ["--epochs", "2"]
    state, status = end_of(program, *SMALL[name], *steps)
    expect(state["end"] == {"status": "finished", "text": "finished"} and status == 0,
           f"{name}: {state['end']}, {status}")
    last = [metric["curve"]["x"][-1] for metric in state["metrics"]]
    expect(name == "train_branches" or last and set(last) == {state["step"]},
           f"{name}: step {state['step']}, the newest metrics are of steps {last}")
    state, status = end_of(program, *SMALL[name], *steps, "--lr", "1e6", "--optimizer", "sgd")
    text = f"diverged at step {state['step']}"
    expect(state["end"] == {"status": "diverged", "text": text} and status == 1, f"{name}: {state['end']}, {status}")
    expect(state["loss"] in ("NaN", "infinity", "-infinity"), f"{name}: diverged with the loss {state['loss']}")
    with tempfile.TemporaryDirectory() as folder:
        report = str(pathlib.Path(folder) / "report.json")
        state, status = end_of(program, *SMALL[name], *steps, "--report", report, most_file_bytes=100)
        expect(state["end"]["status"] == "failed" and status == 1, f"{name}: {state['end']}, {status}")
        expect(re.match("failed: .*report.*File too large", state["end"]["text"]), f"{name}: {state['end']}")


def errors(name, program):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = run(program, "--dashboard", port)
        expect(ended.returncode == 2 and f"--dashboard: port {port} of 127.0.0.1 is in use" in ended.stderr, ended.stderr)
    for bad in ("-1", "65536", "http"):
        ended = run(program, f"--dashboard={bad}")
        expect(ended.returncode == 2 and f"--dashboard: expected an integer from 0 to 65535, found '{bad}'" in ended.stderr,
               ended.stderr)


def equal_losses(name, program):
    with tempfile.TemporaryDirectory() as folder:
        losses = []
        for more in ([], ["--dashboard", "0"]):
            report = pathlib.Path(folder) / "report.json"
            ended = run(program, "--runtime", "host", "--quiet", "--steps", "5", "--report", str(report), *SMALL[name], *more)
            expect(ended.returncode == 0, ended.stderr)
            expect(("dashboard: http://127.0.0.1:" in ended.stderr) == bool(more), ended.stderr)
            losses.append(json.loads(report.read_text())["losses"])
        expect(losses[0] == losses[1] and len(losses[0]) >= 4, f"{name}: {losses}")


def main():
    for argument in sys.argv[1:]:
        name, program = argument.split("=", 1)
        begin = time.monotonic()
        if "no dashboard" in run(program, "--dashboard", *SMALL[name], "--steps", "1").stderr:
            print("skipped: the build has no libmicrohttpd (libmicrohttpd-dev)")
            return 77
        errors(name, program)
        equal_losses(name, program)
        watch(name, program)
        ends(name, program)
        if name != "train_branches":
            state = watch(name, program, "--ranks", "2")
            expect(state["ranks"] == 2, f"{name}: {state['ranks']} ranks")
        print(f"{name}: {time.monotonic() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
