#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the training step of ple_step_benchmark in PyTorch, and prints the times as JSON.

torch_ple_step.py [--out FILE] [--batches 512,4096] [--streams 1,4,7] [--steps 40] [--repetitions 5]

Uses PyTorch's defaults, dense gradients of the tables, SGD over all rows in a few launches (foreach), and
TF32 products. Each field, expert, gate and tower is a branch; branches alternate among the streams. Runs
eagerly, and captured into one CUDA graph.
"""
import torch
import torch.nn.functional as functional
from torch import nn

import torch_steps

# The sizes of benchmarks/axes.hpp and the defaults of train_ple, which pads the 13 continuous
# columns to 16.
FIELDS, HOTNESS, TABLE_ROWS, DIM, CONTINUOUS, TASKS = 26, 4, 100_000, 16, 13, 3
EXPERTS, LEVELS, HIDDEN, OUTPUTS, TOWER = 2, 2, 256, 128, 64


def perceptron(*widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class Level(nn.Module):
    def __init__(self, inputs, has_shared_gate):
        super().__init__()
        self.experts = nn.ModuleList(perceptron(inputs, HIDDEN, OUTPUTS) for _ in range((TASKS + 1) * EXPERTS))
        self.gates = nn.ModuleList(nn.Linear(inputs, 2 * EXPERTS) for _ in range(TASKS))
        if has_shared_gate:
            self.gates.append(nn.Linear(inputs, (TASKS + 1) * EXPERTS))

    def forward(self, run, inputs):
        """Returns the output of each gate. `inputs` has one tensor for each task and one for the shared experts."""
        outputs = run([lambda k=k, expert=expert: expert(inputs[k // EXPERTS])
                       for k, expert in enumerate(self.experts)])
        shared = outputs[TASKS * EXPERTS:]

        def mix(owner):
            own = outputs[owner * EXPERTS:(owner + 1) * EXPERTS] + shared if owner < TASKS else outputs
            weights = torch.softmax(self.gates[owner](inputs[owner]), 1)
            return sum(weights[:, k:k + 1] * output for k, output in enumerate(own))

        return run([lambda owner=owner: mix(owner) for owner in range(len(self.gates))])


class Ple(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(TABLE_ROWS, DIM, mode="mean") for _ in range(FIELDS))
        inputs = FIELDS * DIM + CONTINUOUS
        self.levels = nn.ModuleList(Level(OUTPUTS if level else inputs, level + 1 < LEVELS) for level in range(LEVELS))
        self.towers = nn.ModuleList(nn.Sequential(perceptron(OUTPUTS, TOWER), nn.Linear(TOWER, 1)) for _ in range(TASKS))

    def forward(self, run, keys, continuous):
        columns = run([lambda field=field, table=table: table(keys[field] % TABLE_ROWS)
                       for field, table in enumerate(self.tables)])
        inputs = [torch.cat([*columns, continuous], 1)] * (TASKS + 1)
        for level in self.levels:
            inputs = level(run, inputs)
        return run([lambda task=task, tower=tower: tower(inputs[task]) for task, tower in enumerate(self.towers)])


def step_function(batch, streams):
    model = Ple().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    run = torch_steps.runner(streams)
    keys = torch.randint(1 << 40, (FIELDS, batch, HOTNESS), device="cuda")
    continuous = torch.rand(batch, CONTINUOUS, device="cuda")
    labels = torch.randint(2, (TASKS, batch, 1), device="cuda").float()

    def step():
        optimizer.zero_grad(set_to_none=True)
        logits = model(run, keys, continuous)
        loss = sum(functional.binary_cross_entropy_with_logits(logit, label) for logit, label in zip(logits, labels))
        loss.backward()
        optimizer.step()

    return step


def main():
    parser = torch_steps.arguments(__doc__.partition("\n")[0], "1,4,7")
    parser.add_argument("--batches", default="512,4096")
    options = parser.parse_args()

    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    runs = [{"batch": int(batch), "streams": int(streams)}
            | torch_steps.measured_step(step_function(int(batch), int(streams)), captured, options.steps,
                                        options.repetitions)
            for batch in options.batches.split(",") for captured in (False, True) for streams in options.streams.split(",")]
    torch_steps.write(options, "ple_step", runs)


if __name__ == "__main__":
    main()
