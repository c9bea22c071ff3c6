#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the training steps of dlrm_step_benchmark in PyTorch, and prints the times as JSON.

torch_dlrm.py [--out FILE] [--batches 2048,8192,65536] [--interactions cross,dot] [--max-rows 1000000] [--steps 10]
              [--repetitions 5] [--beside build/cuda/benchmarks/dlrm_step_benchmark]

DCN-v2 and DLRM at MLPerf's sizes: the dense part in bfloat16 by autocast, eager and compiled; the tables in float32
with sparse gradients, one embedding bag for all of them, updated by SGD, since PyTorch has no row-wise Adagrad for
sparse gradients; Adagrad for the rest.

With --beside, also runs the steps of dlrm_step_benchmark in bfloat16, those of a model and a batch right after PyTorch's.
Of its numbers of stream groups the fastest counts, and so does the faster one of PyTorch's eager and compiled step. All
times are medians over the repetitions.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

import torch
from torch import nn
from torch.nn import functional

ROWS = [40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10, 2_209, 11_938,
        155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36]
HOTNESS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
NUMBERS, FIELDS, WIDTH, RANK = 13, len(ROWS), 128, 512


def layers(*widths, ends_in_relu):
    made = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        made.append(nn.Linear(inputs, outputs))
        if ends_in_relu or i + 2 < len(widths):
            made.append(nn.ReLU())
    return nn.Sequential(*made)


class Dense(nn.Module):
    """Everything but the tables: bottom layers, interaction and top layers."""

    def __init__(self, interaction):
        super().__init__()
        self.interaction = interaction
        joined = WIDTH * (FIELDS + 1)
        self.bottom = layers(NUMBERS, 512, 256, WIDTH, ends_in_relu=True)
        if interaction == "cross":
            self.down = nn.ModuleList(nn.Linear(joined, RANK, bias=False) for _ in range(3))
            self.up = nn.ModuleList(nn.Linear(RANK, joined) for _ in range(3))
        else:
            self.register_buffer("pairs", torch.tril_indices(FIELDS + 1, FIELDS + 1, -1))
            joined = WIDTH + FIELDS * (FIELDS + 1) // 2
        self.top = layers(joined, 1024, 1024, 512, 256, 1, ends_in_relu=False)

    def forward(self, numbers, pooled):
        bottom = self.bottom(numbers)
        pooled = pooled.to(bottom.dtype)
        if self.interaction == "cross":
            first = crossed = torch.cat([bottom, pooled], 1)
            for down, up in zip(self.down, self.up):
                crossed = first * up(down(crossed)) + crossed
        else:
            vectors = torch.cat([bottom, pooled], 1).view(-1, FIELDS + 1, WIDTH)
            products = torch.bmm(vectors, vectors.transpose(1, 2))
            crossed = torch.cat([bottom, products[:, self.pairs[0], self.pairs[1]]], 1)
        return self.top(crossed)


def time_step(interaction, batch, max_rows, compiled, steps, repetitions):
    """Returns the milliseconds of a step in each repetition."""
    device = "cuda"
    torch.manual_seed(1)
    rows = [min(count, max_rows) for count in ROWS]
    first_rows = torch.tensor([0] + rows[:-1]).cumsum(0).tolist()
    ids = torch.cat([torch.randint(count, (batch * hotness,), device=device) + first
                     for count, hotness, first in zip(rows, HOTNESS, first_rows)])
    lengths = torch.cat([torch.full((batch,), hotness, device=device) for hotness in HOTNESS])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long, device=device), lengths.cumsum(0)[:-1]])
    numbers = torch.randn(batch, NUMBERS, device=device)
    labels = (torch.rand(batch, 1, device=device) < 0.5).float()
    tables = nn.EmbeddingBag(sum(rows), WIDTH, mode="sum", sparse=True, device=device)
    dense = Dense(interaction).to(device)
    torch._dynamo.reset()  # otherwise a second batch is compiled for any size
    forward = torch.compile(dense, dynamic=False) if compiled else dense
    of_tables = torch.optim.SGD(tables.parameters(), 0.01)
    of_dense = torch.optim.Adagrad(dense.parameters(), 0.01, foreach=True)

    def step():
        of_tables.zero_grad(set_to_none=True)
        of_dense.zero_grad(set_to_none=True)
        pooled = tables(ids, offsets).view(FIELDS, batch, WIDTH).transpose(0, 1).reshape(batch, -1)
        with torch.autocast(device, torch.bfloat16):
            logits = forward(numbers, pooled)
        functional.binary_cross_entropy_with_logits(logits.float(), labels).backward()
        of_tables.step()
        of_dense.step()

    times = []
    for repetition in range(repetitions + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        if repetition > 0:  # the first one warms up and compiles
            times.append((time.perf_counter() - begin) / steps * 1e3)
    return times


def summary_of(times, batch):
    """Returns the median and the range of the milliseconds of a step, and the samples a second."""
    median = statistics.median(times)
    return {"ms": round(median, 3), "least_ms": round(min(times), 3), "most_ms": round(max(times), 3),
            "samples_per_s": round(batch / median * 1e3)}


def time_ours(program, interaction, batch, repetitions):
    """Returns the milliseconds of a step of dlrm_step_benchmark in each repetition, by the name of the benchmark."""
    model = "dcn" if interaction == "cross" else interaction
    run = subprocess.run([program, f"--benchmark_filter=^dlrm_step/cuda/{model}/batch:{batch}/bf16/(captured|rows_beside)",
                          f"--benchmark_repetitions={repetitions}", "--benchmark_format=json"],
                         check=True, stdout=subprocess.PIPE, text=True)
    times = {}
    for entry in json.loads(run.stdout or '{"benchmarks": []}')["benchmarks"]:
        if entry.get("error_occurred"):
            raise ValueError(f"{entry['name']}: {entry.get('error_message')}")
        if entry["run_type"] == "iteration":
            in_ms = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}[entry["time_unit"]]
            times.setdefault(entry["run_name"], []).append(entry["real_time"] * in_ms)
    if not times:
        raise ValueError(f"{program} has no steps of {model} with a batch of {batch} on CUDA")
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--batches", default="2048,8192,65536")
    parser.add_argument("--interactions", default="cross,dot")
    parser.add_argument("--max-rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--beside", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.beside and arguments.max_rows != parser.get_default("max_rows"):
        parser.error("--beside: the tables of dlrm_step_benchmark have the default of --max-rows")
    torch.backends.cuda.matmul.allow_tf32 = True
    results = []

    def keep(result):
        results.append(result)
        print(json.dumps(result), flush=True)
        if arguments.out:
            text = json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "steps": results}, indent=1)
            arguments.out.write_text(text + "\n")

    for interaction in arguments.interactions.split(","):
        for batch in map(int, arguments.batches.split(",")):
            medians = []
            for compiled in (False, True):
                times = time_step(interaction, batch, arguments.max_rows, compiled, arguments.steps,
                                  arguments.repetitions)
                keep({"interaction": interaction, "batch": batch, "compiled": compiled, **summary_of(times, batch)})
                medians.append(statistics.median(times))
                torch.cuda.empty_cache()
            if arguments.beside:
                ours = time_ours(arguments.beside.resolve(), interaction, batch, arguments.repetitions)
                name, times = min(ours.items(), key=lambda one: statistics.median(one[1]))
                keep({"interaction": interaction, "batch": batch, "msstream": name, **summary_of(times, batch),
                      "times_as_fast": round(min(medians) / statistics.median(times), 2)})


if __name__ == "__main__":
    main()
