#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embedding bags, their gradients, segment reductions and unique in PyTorch, in the sizes of benchmarks/axes.hpp.

torch_ops.py [--out FILE] [--repetitions 5] [--runs 20]

Prints JSON: for each benchmark of the suites embedding and segment, under the same name, nanoseconds by the device's
clock, the median of so many runs a repetition. Before each run 512 MiB are written, so that nothing is in the cache.
"""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F

ROWS, WIDTH, BAGS, HOTNESS = 10_000_000, 128, 65_536, (1, 16, 64)
SEGMENT_ROWS, SEGMENTS, SEGMENT_WIDTHS = 1 << 22, 1 << 18, (64, 128)
TABLES, TABLE_BATCHES, UNIQUE_IDS = 26, (2048, 8192), (1 << 20, 1 << 22)
SLOW_S = 0.05  # what takes longer is run a few times only


def drawn(count, rows, draw):
    unit = torch.rand(count, dtype=torch.float64, device="cuda")
    if draw == "uniform":
        return (unit * rows).long().clamp_(max=rows - 1)
    exponent = 1 - 1.05
    rank = (unit * (math.pow(rows + 1, exponent) - 1) + 1).pow(1 / exponent).long()
    spread = 2_654_435_761
    while math.gcd(spread, rows) != 1:
        spread += 2
    return (rank - 1).clamp_(0, rows - 1) * spread % rows


class Clock:
    def __init__(self, runs, repetitions):
        self.runs, self.repetitions = runs, repetitions
        self.flush = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
        self.rows = {}

    def run(self, operation):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.fill_(1)
        torch.cuda._sleep(1_000_000)  # the launches get ahead of the device
        begin.record()
        operation()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e6

    def measure(self, name, operation):
        for _ in range(2):
            operation()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        operation()
        torch.cuda.synchronize()
        slow = time.perf_counter() - begin > SLOW_S
        runs, repetitions = (1, 2) if slow else (self.runs, self.repetitions)
        self.rows[name] = [statistics.median(self.run(operation) for _ in range(runs)) for _ in range(repetitions)]


def embedding_bags(clock):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        table = torch.empty(ROWS, WIDTH, dtype=dtype, device="cuda")
        for begin in range(0, ROWS, 1_000_000):
            table[begin:begin + 1_000_000].uniform_(-1, 1)
        name = str(dtype).removeprefix("torch.")
        for draw in ("uniform", "power_law"):
            for hotness in HOTNESS:
                ids = drawn(BAGS * hotness, ROWS, draw).int()
                offsets = torch.arange(0, BAGS * hotness + 1, hotness, dtype=torch.int32, device="cuda")
                clock.measure(f"embedding/lookup/{name}/csr/{draw}/hotness:{hotness}",
                              lambda: F.embedding_bag(ids, table, offsets, mode="sum", include_last_offset=True))
                if hotness == 1:
                    one = ids.long()
                    clock.measure(f"embedding/lookup/{name}/fixed/{draw}/hotness:1", lambda: table.index_select(0, one))
        del table


def row_gradients(clock):
    table = torch.zeros(ROWS, WIDTH, device="cuda", requires_grad=True)
    gradient = torch.rand(BAGS, WIDTH, device="cuda")
    for draw in ("uniform", "power_law"):
        for hotness in HOTNESS:
            ids = drawn(BAGS * hotness, ROWS, draw)
            offsets = torch.arange(0, BAGS * hotness + 1, hotness, device="cuda")
            pooled = F.embedding_bag(ids, table, offsets, mode="sum", include_last_offset=True, sparse=True)
            clock.measure(f"embedding/row_gradients/csr/{draw}/hotness:{hotness}",
                          lambda: torch.autograd.grad(pooled, table, gradient, retain_graph=True)[0].coalesce())


def many_tables(clock):
    tables = [torch.rand(ROWS // TABLES, WIDTH, device="cuda") for _ in range(TABLES)]
    for batch in TABLE_BATCHES:
        ids = [drawn(batch, ROWS // TABLES, "uniform") for _ in range(TABLES)]
        offsets = torch.arange(0, batch + 1, device="cuda")

        def lookups():
            return [F.embedding_bag(each, table, offsets, mode="sum", include_last_offset=True)
                    for each, table in zip(ids, tables)]

        lookups()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = lookups()
        clock.measure(f"embedding/tables:{TABLES}/batch:{batch}", graph.replay)
        del kept, graph


def segments(clock):
    for width in SEGMENT_WIDTHS:
        values = torch.rand(SEGMENT_ROWS, width, device="cuda")
        for draw, lengths in (("uniform", "even"), ("power_law", "power_law")):
            ids = drawn(SEGMENT_ROWS, SEGMENTS, draw)
            counts = torch.bincount(ids, minlength=SEGMENTS)
            for reduction in ("sum", "mean", "max", "min"):
                clock.measure(f"segment/sorted/{reduction}/{lengths}/width:{width}",
                              lambda: torch.segment_reduce(values, reduction, lengths=counts, unsafe=True))
            clock.measure(f"segment/unsorted_sum/fast/{draw}/width:{width}",
                          lambda: torch.zeros(SEGMENTS, width, device="cuda").index_add_(0, ids, values))

            def by_sorting():
                _, order = torch.sort(ids)
                lengths_now = torch.bincount(ids, minlength=SEGMENTS)
                return torch.segment_reduce(values.index_select(0, order), "sum", lengths=lengths_now, unsafe=True)

            clock.measure(f"segment/unsorted_sum/deterministic/{draw}/width:{width}", by_sorting)
        del values
    for count in UNIQUE_IDS:
        for draw in ("uniform", "power_law"):
            ids = drawn(count, ROWS, draw)
            clock.measure(f"segment/unique/any/{draw}/ids:{count}", lambda: torch.unique(ids, return_inverse=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", help="write the JSON here as well")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(1)
    clock = Clock(options.runs, options.repetitions)
    for measure in (embedding_bags, row_gradients, many_tables, segments):
        measure(clock)
        torch.cuda.empty_cache()
    printed = json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": clock.rows}, indent=1)
    print(printed)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(printed + "\n")


if __name__ == "__main__":
    main()
