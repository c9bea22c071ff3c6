#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs with a planted cause of lost overlap: planted.py MODE [--fixed] [--trace FILE].

Prints the median time of a step as a line of JSON. With --trace, the last round is recorded by torch.profiler, as a
Chrome trace that msstream-overlap and HTA read. Without a mode, lists the modes.
"""

import argparse
import json
import statistics
import sys
import time

import torch


def pinned(elements, pin):
    return torch.ones(elements, pin_memory=pin)


def eager_small(fixed):
    """Launch-bound: 100 operations of a few us, each launched by the interpreter. Fixed: a CUDA graph."""
    x = torch.ones(256, 256, device="cuda")

    def issue():
        y = x
        for _ in range(100):
            y = y * 1.0001 + 0.5
        return y

    if not fixed:
        return issue, 20
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        issue()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        issue()
    return graph.replay, 20


def read_the_loss(fixed):
    """Host synchronisation: loss.item() in every step, after which the host prepares. Fixed: it reads at the end."""
    weight = torch.randn(4096, 4096, device="cuda")  # its square takes longer than the host prepares

    def step():
        loss = (weight @ weight).mean()
        if not fixed:
            loss.item()
        end = time.perf_counter() + 300e-6  # what the host does for the next step
        while time.perf_counter() < end:
            pass

    return step, 30


def pageable_batch(fixed):
    """Pageable copies: .to("cuda", non_blocking=True) from memory that is not pinned blocks. Fixed: pin_memory."""
    batch = pinned(4 << 20, fixed)
    target = torch.empty(4 << 20, device="cuda")
    weight = torch.randn(4096, 4096, device="cuda")
    copies = torch.cuda.Stream()

    def step():
        with torch.cuda.stream(copies):
            target.copy_(batch, non_blocking=True)
        weight @ weight

    return step, 20


def slow_input(fixed):
    """Host busy: the training loop decodes its input. Fixed: the input is ready."""
    weight = torch.randn(2048, 2048, device="cuda")
    sample = list(range(100_000))

    def step():
        if not fixed:
            sum(value * value for value in sample)
        for _ in range(4):
            weight @ weight

    return step, 20


def aliased_streams(fixed):
    """One stream for two roles: the 33rd stream of torch's pool is the first one. Fixed: the second one."""
    streams = [torch.cuda.Stream() for _ in range(33)]
    compute, copies = streams[0], streams[1 if fixed else 32]
    assert fixed or compute.cuda_stream == copies.cuda_stream, "this torch has another pool"
    batch, target = pinned(8 << 20, True), torch.empty(8 << 20, device="cuda")
    weight = torch.randn(4096, 4096, device="cuda")

    def step():
        with torch.cuda.stream(compute):
            weight @ weight
        with torch.cuda.stream(copies):
            target.copy_(batch, non_blocking=True)

    return step, 20


def empty_cache(fixed):
    """Driver allocation: torch.cuda.empty_cache() in every step, so that the next one allocates. Fixed: without."""

    def step():
        x = torch.ones(16 << 20, device="cuda")
        y = x * 2
        del x, y
        if not fixed:
            torch.cuda.empty_cache()

    return step, 20


def large_products(fixed):
    """Multiprocessors full: products in two streams, each with blocks for the whole device. Fixed: one stream.

    The twin is no faster: nothing is gained by streams for work that needs the whole device.
    """
    a = torch.randn(4096, 4096, device="cuda")
    first = torch.cuda.Stream()
    streams = [first, first if fixed else torch.cuda.Stream()]

    def step():
        for _ in range(2):
            for stream in streams:
                with torch.cuda.stream(stream):
                    a @ a

    return step, 10


def late_wait_stream(fixed):
    """False dependency: side.wait_stream(main) waits for all that main was given. Fixed: an event after the need."""
    side = torch.cuda.Stream()
    small = torch.randn(512, 512, device="cuda")

    def step():
        main = torch.cuda.current_stream()
        needed = small * 2
        event = main.record_event()
        torch.cuda._sleep(1_000_000)  # a kernel of 0.5 ms that the side stream does not need
        if fixed:
            side.wait_event(event)
        else:
            side.wait_stream(main)
        with torch.cuda.stream(side):
            needed @ small
            torch.cuda._sleep(900_000)
        main.wait_stream(side)

    return step, 20


def tutorial_copies(fixed):
    """The tutorial on pinned memory: copies both ways beside products, with pageable memory. Fixed: pinned.

    How much of the copies is beside products is the question: record it with --trace, and compare the busy, idle and
    overlapped times with those of HTA on the same file.
    """
    elements = 8 << 20
    host_in, host_out = pinned(elements, fixed), pinned(elements, fixed)
    device_in = torch.empty(elements, device="cuda")
    device_out = torch.ones(elements, device="cuda")
    weight = torch.randn(4096, 4096, device="cuda")
    up, down = torch.cuda.Stream(), torch.cuda.Stream()

    def step():
        with torch.cuda.stream(up):
            device_in.copy_(host_in, non_blocking=True)
        with torch.cuda.stream(down):
            host_out.copy_(device_out, non_blocking=True)
        weight @ weight

    return step, 15


MODES = [
    eager_small,
    read_the_loss,
    pageable_batch,
    slow_input,
    aliased_streams,
    empty_cache,
    large_products,
    late_wait_stream,
    tutorial_copies,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", nargs="?", choices=[mode.__name__ for mode in MODES])
    parser.add_argument("--fixed", action="store_true", help="run the twin without the cause")
    parser.add_argument("--trace", help="record the last round with torch.profiler, and write it there")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.mode is None:
        print("\n".join(mode.__name__ for mode in MODES))
        return
    torch.backends.cuda.matmul.allow_tf32 = True
    build = next(mode for mode in MODES if mode.__name__ == options.mode)
    with torch.no_grad():
        step, steps = build(options.fixed)

        def run_round():
            begin = time.perf_counter()
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
            return (time.perf_counter() - begin) * 1e6 / steps

        run_round()
        times = [run_round() for _ in range(options.rounds)]
        if options.trace:
            with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
            ) as profile:
                run_round()
            profile.export_chrome_trace(options.trace)
        else:
            torch.cuda.nvtx.range_push("measured")
            run_round()
            torch.cuda.nvtx.range_pop()
    line = {"program": "planted.py", "mode": options.mode, "fixed": options.fixed}
    print(json.dumps({**line, "step_us": round(statistics.median(times), 2)}))


if __name__ == "__main__":
    sys.exit(main())
