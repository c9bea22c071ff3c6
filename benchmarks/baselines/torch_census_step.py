#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the training step of train_step_benchmark in eager PyTorch, and prints the times as JSON.

torch_census_step.py [--data census_income_kdd.csv.gz] [--out FILE] [--in-range STEPS]

The variant `dense` keeps PyTorch's defaults: dense gradients of the tables and Adam over all rows. The
variant `sparse` uses sparse gradients and updates only the touched rows with SparseAdam, as msstream does.
With --data, an epoch over the real rows is timed, too, with the batches on the device.
"""
import argparse
import csv
import gzip
import json
import statistics
import time

import torch
from torch import nn

# The number of distinct keys of each field of Census-Income (KDD), as in benchmarks/axes.hpp.
DISTINCT_KEYS = [9, 52, 47, 17, 3, 7, 24, 15, 5, 10, 2, 3, 6, 8, 6, 6, 51, 37, 8, 10, 9, 10, 3, 4, 5, 43, 43, 43,
                 5, 3, 3, 3, 2]
CONTINUOUS_COLUMNS = [0, 5, 16, 17, 18, 30, 39]
WEIGHT_COLUMN, LABEL_COLUMN = 24, 41
BATCH, EMBEDDING_DIM, LAYERS = 512, 16, [256, 128]


class WideDeep(nn.Module):
    """A linear model over the fields beside an MLP over their embeddings."""

    def __init__(self, table_rows, continuous, sparse):
        super().__init__()
        self.deep = nn.ModuleList(nn.Embedding(rows, EMBEDDING_DIM, sparse=sparse) for rows in table_rows)
        self.wide = nn.ModuleList(nn.Embedding(rows, 1, sparse=sparse) for rows in table_rows)
        self.linear = nn.Linear(continuous, 1)
        for table in self.deep:
            nn.init.uniform_(table.weight, -0.05, 0.05)
        for table in self.wide:
            nn.init.zeros_(table.weight)
        widths = [len(table_rows) * EMBEDDING_DIM + continuous, *LAYERS]
        layers = [part for inputs, outputs in zip(widths, widths[1:]) for part in (nn.Linear(inputs, outputs), nn.ReLU())]
        self.mlp = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, keys, continuous):
        """Returns the logits. `keys` has one [batch] tensor of row numbers per field."""
        deep = [table(ids) for table, ids in zip(self.deep, keys)]
        logit = self.linear(continuous) + self.mlp(torch.cat([*deep, continuous], dim=1))
        for table, ids in zip(self.wide, keys):
            logit = logit + table(ids)
        return logit


class Training:
    def __init__(self, variant, device):
        sparse = variant == "sparse"
        table_rows = [max(1024, 32 * distinct) for distinct in DISTINCT_KEYS]
        self.model = WideDeep(table_rows, len(CONTINUOUS_COLUMNS), sparse).to(device)
        tables = [table.weight for table in (*self.model.deep, *self.model.wide)]
        others = [*self.model.linear.parameters(), *self.model.mlp.parameters()]
        if sparse:
            self.optimizers = [torch.optim.Adam(others, lr=1e-3), torch.optim.SparseAdam(tables, lr=1e-3)]
        else:
            self.optimizers = [torch.optim.Adam([*others, *tables], lr=1e-3)]
        self.loss = nn.BCEWithLogitsLoss()

    def step(self, keys, continuous, labels):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(keys, continuous), labels).backward()
        for optimizer in self.optimizers:
            optimizer.step()


def random_batch(device):
    keys = [torch.randint(distinct, (BATCH,), device=device) for distinct in DISTINCT_KEYS]
    continuous = torch.randn(BATCH, len(CONTINUOUS_COLUMNS), device=device)
    labels = (torch.rand(BATCH, 1, device=device) < 1 / 16).float()
    return keys, continuous, labels


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def median_step_ms(variant, device, steps, repetitions):
    """Times `repetitions` runs of `steps` steps. Waits for the device only before and after each run."""
    training, batch = Training(variant, device), random_batch(device)
    times = []
    for repetition in range(repetitions + 1):
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(steps):
            training.step(*batch)
        synchronize(device)
        if repetition > 0:  # repetition 0 is the warm-up
            times.append((time.perf_counter() - begin) * 1e3 / steps)
    return {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}


def load_census(path, device):
    """Returns all rows except every fifth, on the device: keys [fields, rows], standardised values, labels."""
    open_text = gzip.open if str(path).endswith(".gz") else open
    with open_text(path, "rt", newline="") as file:
        rows = [row for i, row in enumerate(csv.reader(file, skipinitialspace=True)) if i % 5 != 4]
    left_out = {*CONTINUOUS_COLUMNS, WEIGHT_COLUMN, LABEL_COLUMN}
    columns = list(zip(*rows))
    keys = []
    for i, column in enumerate(columns):
        if i not in left_out:
            number_of = {key: number for number, key in enumerate(sorted(set(column)))}
            keys.append([number_of[key] for key in column])
    continuous = torch.tensor([[float(value) for value in columns[i]] for i in CONTINUOUS_COLUMNS]).T
    continuous = (continuous - continuous.mean(0)) / continuous.std(0).clamp_min(1e-6)
    labels = torch.tensor([[float(value.startswith("50000+"))] for value in columns[LABEL_COLUMN]])
    return torch.tensor(keys, device=device), continuous.contiguous().to(device), labels.to(device)


def train_census(path, variant, device, epochs=2):
    """Returns the seconds of an epoch. The first epoch is a warm-up."""
    keys, continuous, labels = load_census(path, device)
    training = Training(variant, device)
    seconds = []
    for _ in range(epochs):
        order = torch.randperm(len(labels), device=device)
        synchronize(device)
        begin = time.perf_counter()
        for start in range(0, len(labels), BATCH):
            chosen = order[start:start + BATCH]
            training.step(keys[:, chosen].unbind(0), continuous[chosen], labels[chosen])
        synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return {"rows": len(labels), "first_s": seconds[0], "epoch_s": min(seconds[1:])}


def train_in_a_range(steps):
    """Trains with dense gradients in the NVTX range `steady`, for `msstream-overlap run --range steady`."""
    training, batch = Training("dense", "cuda"), random_batch("cuda")
    for name, count in (("warm-up", 20), ("steady", steps)):
        torch.cuda.nvtx.range_push(name)
        for _ in range(count):
            training.step(*batch)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="census_income_kdd.csv.gz: time an epoch over it too")
    parser.add_argument("--out", help="write the JSON here as well")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--in-range", type=int, help="only train so many steps, in the NVTX range `steady`")
    options = parser.parse_args()

    torch.manual_seed(1)
    if options.in_range:
        train_in_a_range(options.in_range)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result = {"torch": torch.__version__,
              "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
              "batch": BATCH, "steps": options.steps, "repetitions": options.repetitions, "train_step": {}}
    for variant in ("dense", "sparse"):
        result["train_step"][variant] = median_step_ms(variant, device, options.steps, options.repetitions)
    if options.data:
        result["train_census"] = {variant: train_census(options.data, variant, device) for variant in ("dense", "sparse")}
    printed = json.dumps(result, indent=2)
    print(printed)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(printed + "\n")


if __name__ == "__main__":
    main()
