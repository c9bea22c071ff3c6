#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the training step of branch_step_benchmark in PyTorch, and prints the times as JSON.

torch_branch_step.py [--out FILE] [--streams 1,4] [--steps 40] [--repetitions 5]

Uses PyTorch's defaults, TF32 products, and Adam over all parameters in a few launches (foreach). Each of
the four branches runs on a stream, eagerly and captured into one CUDA graph.
"""
import torch
import torch.nn.functional as functional
from torch import nn

import torch_steps

# The sizes of the train_branches example.
WIDTH, LAYERS, TARGET, EPSILON = 512, 20, 20, 1e-6


def factors():
    """Returns factors of either sign, close to 1 in size: all layers of a branch multiply by the same ones."""
    return torch.empty(WIDTH, WIDTH).uniform_(0.98, 1.02) * torch.randn(WIDTH, WIDTH).sign()


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(factors() for _ in range(4))
        self.biases = nn.ParameterList(0.1 * torch.randn(WIDTH) for _ in range(4))
        self.joined = nn.Linear(2 * WIDTH + 2, WIDTH)
        nn.init.normal_(self.joined.weight, std=0.25 / WIDTH)
        self.register_buffer("identity", torch.eye(WIDTH))

    def transposing(self, branch, value, sign):
        weight, bias = self.weights[branch], self.biases[branch]
        m = value @ weight + bias
        for _ in range(LAYERS):
            m = m - sign * self.identity
            m = m.t() * weight - bias
            m = m + sign * self.identity
        return m @ m.t()

    def squaring(self, branch, value, square_first):
        weight, bias = self.weights[branch], self.biases[branch]
        m = value.t() @ weight + bias
        for _ in range(LAYERS):
            m = torch.square(m) if square_first else torch.sqrt(m.abs() + EPSILON)
            m = m * weight - bias
            m = torch.sqrt(m.abs() + EPSILON) if square_first else torch.square(m)
        return m.sum(1, keepdim=True)

    def forward(self, run, values):
        columns = run([lambda: self.transposing(0, values[0], 1.0), lambda: self.transposing(1, values[1], -1.0),
                       lambda: self.squaring(2, values[2], True), lambda: self.squaring(3, values[3], False)])
        return self.joined(torch.cat(columns, 1)).mean(0, keepdim=True)


def step_function(streams):
    model = Branches().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6, foreach=True, capturable=True)
    run = torch_steps.runner(streams)
    values = [torch.randn(WIDTH, WIDTH, device="cuda") / WIDTH**0.5 for _ in range(4)]
    target = torch.tensor([TARGET], device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(run, values), target).backward()
        optimizer.step()

    return step


def main():
    options = torch_steps.arguments(__doc__.partition("\n")[0], "1,4").parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    runs = [{"streams": int(streams)}
            | torch_steps.measured_step(step_function(int(streams)), captured, options.steps, options.repetitions)
            for captured in (False, True) for streams in options.streams.split(",")]
    torch_steps.write(options, "branch_step", runs)


if __name__ == "__main__":
    main()
