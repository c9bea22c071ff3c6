#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the steps of half_batches_benchmark in PyTorch on all GPUs of the machine, and prints the times as JSON.

torch_half_batches.py [--out FILE] [--steps 20] [--repetitions 9]

A rank is a process. Each half has a stream and a process group. The ways are those of the benchmark: the products
alone, the gathers alone, one half after the other, the layers of both by turns, and the same as one CUDA graph.
"""
import os
import socket
import statistics

import torch
import torch.distributed as dist
from torch import multiprocessing

import torch_steps

LAYERS, PRODUCTS, SIZES = 12, 3, ((8192, 2048), (2048, 1024))


class Halves:
    def __init__(self, rank, ranks, rows, width):
        half = rows // 2
        self.rank, self.half = rank, half
        self.groups = [dist.new_group(), dist.new_group()]
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        self.weights = [1.4 * torch.randn(width, width, device="cuda") / width**0.5 for _ in range(LAYERS)]
        self.inputs = [torch.randn(half, width, device="cuda") for _ in range(2)]
        self.gathered = [torch.empty(half * ranks, width, device="cuda") for _ in range(2)]

    def products(self, value, layer):
        for _ in range(PRODUCTS):
            value = torch.relu(value @ self.weights[layer])
        return value

    def gather(self, half, group, value):
        dist.all_gather_into_tensor(self.gathered[half], value, group=self.groups[group])
        return self.gathered[half][self.rank * self.half:(self.rank + 1) * self.half]

    def in_turn(self, compute=True, comm=True):
        for half in range(2):
            value = self.inputs[half]
            for layer in range(LAYERS):
                value = self.products(value, layer) if compute else value
                gathered = self.gather(half, 0, value) if comm else value
                value = gathered if compute else value

    def beside(self):
        current = torch.cuda.current_stream()
        for stream in self.streams:
            stream.wait_stream(current)
        values = list(self.inputs)
        for layer in range(LAYERS):
            for half in range(2):
                with torch.cuda.stream(self.streams[half]):
                    values[half] = self.gather(half, half, self.products(values[half], layer))
        for stream in self.streams:
            current.wait_stream(stream)


def milliseconds(step, steps, repetitions):
    """Returns the median, least and most time of a step on all ranks, from a common start."""
    times = []
    for repetition in range(repetitions + 2):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(steps):
            step()
        end.record()
        torch.cuda.synchronize()
        if repetition > 1:
            times.append(begin.elapsed_time(end) / steps)
    return {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}


def measured(halves, steps, repetitions):
    ways = {"compute": lambda: halves.in_turn(comm=False), "comm": lambda: halves.in_turn(compute=False),
            "in_turn": halves.in_turn, "beside": halves.beside}
    times = {name: milliseconds(way, steps, repetitions) for name, way in ways.items()}
    times["captured"] = milliseconds(torch_steps.captured_step(halves.beside), steps, repetitions)
    ideal = max(times["compute"]["median_ms"], times["comm"]["median_ms"])
    for name in ("in_turn", "beside", "captured"):
        times[name]["ratio"] = times[name]["median_ms"] / ideal
    return times


def as_rank(rank, ranks, port, run, options):
    """Calls run(rank, ranks, options), whose results rank 0 writes."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    torch.manual_seed(1 + rank)
    torch.backends.cuda.matmul.allow_tf32 = True
    name, runs = run(rank, ranks, options)
    if rank == 0:
        torch_steps.write(options, name, runs)
    dist.destroy_process_group()


def on_all_gpus(run, description, repetitions, samples=0):
    """Calls run(rank, ranks, options) in a process for each GPU: two or more, between which samples can be divided."""
    parser = torch_steps.arguments(description, "2")
    parser.set_defaults(steps=20, repetitions=repetitions)
    options = parser.parse_args()
    ranks = torch.cuda.device_count()
    if ranks < 2 or samples % ranks:
        parser.error(f"expected two GPUs or more, between which {samples} samples can be divided, found {ranks}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(as_rank, args=(ranks, port, run, options), nprocs=ranks)


def halves_of_rank(rank, ranks, options):
    runs = []
    with torch.no_grad():
        for rows, width in SIZES:
            runs.append({"rows": rows, "width": width}
                        | measured(Halves(rank, ranks, rows, width), options.steps, options.repetitions))
    return "half_batches", runs


if __name__ == "__main__":
    on_all_gpus(halves_of_rank, __doc__.partition("\n")[0], 9)
