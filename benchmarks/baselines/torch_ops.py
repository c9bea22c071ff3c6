#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times embedding bags, segments, moved rows, jagged bags and gradients in PyTorch, with the sizes of msstream's suites.

torch_ops.py [--out FILE] [--repetitions 5] [--runs 20]

Prints JSON: for each benchmark of the suites embedding, segment, rows and jagged that PyTorch can express, under the
same name, the median nanoseconds of --runs runs per repetition, by the device's clock. Before each run, 512 MiB are
written, so that none of its data is in the cache.
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
MOVED, MOVED_WIDTH, NUMBERS, BOUNDARIES = 1 << 20, 64, 1 << 22, 64
MEAN_LENGTH, LONGEST, DENSE_LENGTH = 16, 200, 32
TOP_ROWS, TOP_COLUMNS, TOP = 65_536, 1000, (10, 100)
DRAWS = (("uniform", "even"), ("power_law", "power_law"))  # names of the draw of ids, and of the resulting lengths
SLOW_S = 0.05  # a slower operation runs only a few times


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
        torch.cuda._sleep(1_000_000)  # lets the host enqueue the launches ahead of the device
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
        for draw, lengths in DRAWS:
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


def random(*shape):
    return torch.rand(*shape, device="cuda") * 2 - 1


def rows_moved(clock):
    table, values = random(ROWS, MOVED_WIDTH), random(MOVED, MOVED_WIDTH)
    for draw, _ in DRAWS:
        ids = drawn(MOVED, ROWS, draw)
        clock.measure(f"rows/gather/{draw}", lambda: table.index_select(0, ids))
        clock.measure(f"rows/assign/{draw}", lambda: table.index_copy_(0, ids, values))
        clock.measure(f"rows/scatter/{draw}", lambda: torch.zeros_like(table).index_copy_(0, ids, values))
        # PyTorch gives the gradient of a row to every occurrence of its id; msstream gives it only
        # to the occurrence whose value was stored.
        clock.measure(f"rows/scatter_gradient/{draw}", lambda: table.index_select(0, ids))


def weight_gradients(clock):
    table, gradient, hotness = random(ROWS, WIDTH), random(BAGS, WIDTH), 16
    offsets = torch.arange(0, BAGS * hotness + 1, hotness, dtype=torch.int32, device="cuda")
    for draw, _ in DRAWS:
        ids = drawn(BAGS * hotness, ROWS, draw).int()
        weights = torch.ones(BAGS * hotness, device="cuda", requires_grad=True)
        pooled = F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)
        clock.measure(f"rows/weight_gradient/{draw}",
                      lambda: torch.autograd.grad(pooled, weights, gradient, retain_graph=True))


def top_k(clock):
    values = random(TOP_ROWS, TOP_COLUMNS)
    for k in TOP:
        found = torch.topk(values, k)
        clock.measure(f"rows/top_k/k:{k}", lambda: torch.topk(values, k))
        clock.measure(f"rows/top_k_gradient/k:{k}",
                      lambda: torch.zeros_like(values).scatter_(1, found.indices, found.values))
    numbers, boundaries = random(NUMBERS), torch.arange(BOUNDARIES, device="cuda") * (2 / BOUNDARIES) - 1
    clock.measure("rows/bucketize", lambda: torch.bucketize(numbers, boundaries, right=True))


def offsets_of(lengths):
    offsets = torch.empty(len(lengths) + 1, dtype=lengths.dtype, device="cuda")
    offsets[:1] = 0
    torch.cumsum(lengths, 0, out=offsets[1:])
    return offsets


def jagged_bags(clock):
    for draw, name in DRAWS:
        lengths = torch.bincount(drawn(BAGS * MEAN_LENGTH, BAGS, draw), minlength=BAGS).clamp_(max=LONGEST)
        offsets = offsets_of(lengths)
        values = random(int(offsets[-1]), MOVED_WIDTH)
        dense = random(BAGS, DENSE_LENGTH, MOVED_WIDTH)
        clock.measure(f"jagged/to_dense/{name}", lambda: torch.ops.aten._jagged_to_padded_dense_forward(
            values, [offsets], [DENSE_LENGTH], 0.0))
        clock.measure(f"jagged/from_dense/{name}", lambda: torch.ops.aten._padded_dense_to_jagged_forward(
            dense, [offsets], len(values)))
    lengths = drawn(NUMBERS, 2 * MEAN_LENGTH, "uniform")
    offsets = offsets_of(lengths)
    clock.measure("jagged/lengths_to_offsets", lambda: offsets_of(lengths))
    clock.measure("jagged/offsets_to_lengths", lambda: torch.diff(offsets))


def jagged_segments(clock):
    values, numbers = random(SEGMENT_ROWS, MOVED_WIDTH).requires_grad_(), random(SEGMENT_ROWS)
    gradient = random(SEGMENTS, MOVED_WIDTH)
    for draw, name in DRAWS:
        ids, _ = torch.sort(drawn(SEGMENT_ROWS, SEGMENTS, draw))
        counts = torch.bincount(ids, minlength=SEGMENTS)
        bags = torch.arange(SEGMENTS + 1, device="cuda")
        clock.measure(f"jagged/coo_bags/{name}", lambda: torch.searchsorted(ids, bags))

        def added(each):
            return torch.zeros(SEGMENTS, device="cuda").index_add_(0, ids, each).index_select(0, ids)

        def softmax():
            lowest = torch.full((SEGMENTS,), -math.inf, device="cuda")
            greatest = lowest.scatter_reduce_(0, ids, numbers, "amax").index_select(0, ids)
            powers = torch.exp(numbers - greatest)
            return powers / added(powers)

        output = softmax()
        clock.measure(f"jagged/softmax/{name}", softmax)
        clock.measure(f"jagged/softmax_gradient/{name}", lambda: output * (numbers - added(output * numbers)))
        for reduction in ("sum", "mean", "max"):
            reduced = torch.segment_reduce(values, reduction, lengths=counts, unsafe=True)
            clock.measure(f"jagged/segment_gradient/{reduction}/{name}",
                          lambda: torch.autograd.grad(reduced, values, gradient, retain_graph=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", help="write the JSON here as well")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(1)
    clock = Clock(options.runs, options.repetitions)
    for measure in (embedding_bags, row_gradients, many_tables, segments, rows_moved, weight_gradients, top_k, jagged_bags,
                    jagged_segments):
        measure(clock)
        torch.cuda.empty_cache()
    printed = json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": clock.rows}, indent=1)
    print(printed)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(printed + "\n")


if __name__ == "__main__":
    main()
