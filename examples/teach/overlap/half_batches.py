#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data parallel training with two half batches in flight, on two GPUs: half_batches.py [--fixed] [--trace FOLDER].

The question: each batch is cut in two, so that the gradients of one half are reduced while the other half is computed,
and yet nothing overlaps. As planted, both halves are issued to one stream and reduced by one communicator, and each
half waits for its reduction before the next one is issued. With --fixed, each half has a stream, a process group (a
communicator of its own) and its reduction in flight while the other half computes. Prints the median time of a step.

What to judge is the range "judged" of the recording: recorders begin at another speed in each rank, and steps before
that range make up for it.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

# NVLink multicast must stay off on machines whose GPUs are shared.
os.environ["NCCL_NVLS_ENABLE"] = "0"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

LAYERS, WIDTH, ROWS, STEPS, WARM_STEPS = 4, 4096, 2048, 10, 3


def make_step(device, fixed):
    weights = [torch.randn(WIDTH, WIDTH, device=device) * 0.01 for _ in range(LAYERS)]
    halves = [torch.randn(ROWS, WIDTH, device=device) for _ in range(2)]
    gradients = [[torch.zeros(WIDTH, WIDTH, device=device) for _ in range(LAYERS)] for _ in halves]
    # Every rank must make the groups, in one order.
    groups = [dist.new_group([0, 1]) for _ in halves] if fixed else [dist.group.WORLD] * 2
    streams = [torch.cuda.Stream(device) for _ in halves] if fixed else [torch.cuda.current_stream(device)] * 2

    def half_step(half):
        """Forward and backward of one half; returns its reductions, in flight if fixed."""
        inputs = [halves[half]]
        for weight in weights:
            inputs.append(torch.tanh(inputs[-1] @ weight))
        error = inputs[-1]
        reductions = []
        for layer in reversed(range(LAYERS)):
            torch.mm(inputs[layer].t(), error, out=gradients[half][layer])
            error = error @ weights[layer].t()
            reductions.append(dist.all_reduce(gradients[half][layer], group=groups[half], async_op=True))
        return reductions

    def finish(reductions):
        for reduction in reductions:
            reduction.wait()  # the current stream waits, not the host

    def step():
        if not fixed:
            for half in range(2):
                finish(half_step(half))
        else:
            in_flight = []
            for half in range(2):
                with torch.cuda.stream(streams[half]):
                    in_flight.append(half_step(half))
            for half in range(2):
                with torch.cuda.stream(streams[half]):
                    finish(in_flight[half])

    return step


def work(rank, options, store):
    # The recorder takes the rank from here as CUDA is initialised.
    os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"] = str(rank), "2", str(rank)
    if torch.cuda.device_count() < 2:
        raise RuntimeError(f"half_batches.py needs 2 GPUs, found {torch.cuda.device_count()}")
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=2, device_id=device)
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.no_grad():
        step = make_step(device, options.fixed)

        def run_round():
            begin = time.perf_counter()
            for _ in range(STEPS):
                step()
            torch.cuda.synchronize()
            return (time.perf_counter() - begin) * 1e6 / STEPS

        run_round()
        times = [run_round() for _ in range(7)]

        def judged_round():
            for _ in range(WARM_STEPS):
                step()
            dist.barrier(device_ids=[rank])
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_push("judged")  # for the recorder
            with torch.profiler.record_function("judged"):  # for torch.profiler
                run_round()
            torch.cuda.nvtx.range_pop()

        if options.trace:
            with torch.profiler.profile() as profile:
                judged_round()
            pathlib.Path(options.trace).mkdir(parents=True, exist_ok=True)
            profile.export_chrome_trace(str(pathlib.Path(options.trace) / f"rank{rank}.json.gz"))
        else:
            torch.cuda.nvtx.range_push("measured")
            judged_round()
            torch.cuda.nvtx.range_pop()
    if rank == 0:
        line = {"program": "half_batches.py", "mode": "", "fixed": options.fixed}
        print(json.dumps({**line, "step_us": round(statistics.median(times), 2)}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fixed", action="store_true", help="a stream and a communicator for each half")
    parser.add_argument("--trace", help="a folder for traces by torch.profiler, one a rank")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(options, os.path.join(folder, "store")), nprocs=2)


if __name__ == "__main__":
    main()
