# SPDX-License-Identifier: Apache-2.0
"""Code that the training steps in PyTorch share: branches on streams, capture, and timing."""
import argparse
import json
import statistics
import time

import torch


def runner(streams):
    """Returns a function that runs branches on the streams round-robin, between a fork and a join."""
    if streams == 1:
        return lambda branches: [branch() for branch in branches]
    pool = [torch.cuda.Stream() for _ in range(streams)]

    def run(branches):
        current = torch.cuda.current_stream()
        results = []
        for stream in pool:
            stream.wait_stream(current)
        for number, branch in enumerate(branches):
            with torch.cuda.stream(pool[number % streams]):
                results.append(branch())
        for stream in pool:
            current.wait_stream(stream)
        return results

    return run


def captured_step(step):
    """Runs the step a few times, and returns a function that replays it as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measured_step(step, captured, steps, repetitions):
    """Returns the milliseconds of a step, and the peak memory."""
    if captured:
        step = captured_step(step)
    times = []
    for repetition in range(repetitions + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        if repetition > 0:  # repetition 0 is the warm-up
            times.append((time.perf_counter() - begin) * 1e3 / steps)
    peak_mib = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.reset_peak_memory_stats()
    return {"captured": captured, "median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times),
            "peak_mib": peak_mib}


def arguments(description, streams):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", help="write the JSON here as well")
    parser.add_argument("--streams", default=streams)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repetitions", type=int, default=5)
    return parser


def write(options, name, runs):
    printed = json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "steps": options.steps,
                          "repetitions": options.repetitions, name: runs}, indent=2)
    print(printed)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(printed + "\n")
