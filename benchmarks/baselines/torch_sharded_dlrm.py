#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the step of sharded_dlrm_benchmark in PyTorch on all GPUs of the machine, and prints the times as JSON.

torch_sharded_dlrm.py [--out FILE] [--steps 20] [--repetitions 7]

A rank is a process and has whole tables, all in one weight. A step is measured in turn, and as a pipeline of three
streams, as TorchRec's: the ids of the step after the next are copied to the GPU, those of the next are sent to the
tables' ranks by all_to_all_single, and the current step trains. Rows are updated in place by index_add_, without a
sparse gradient. Gradients of the dense layers are averaged by DistributedDataParallel.
"""
import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn

import torch_half_batches

TABLES, ROWS, WIDTH, HOTNESS, SAMPLES, NUMBERS = 26, 1_000_000, 128, 10, 16384, 13
BOTTOM, TOP, RATE, BATCHES = (512, 256, 128), (1024, 1024, 512, 256, 1), 0.01, 4


def layers(inputs, widths, last):
    modules = []
    for i, width in enumerate(widths):
        modules += [nn.Linear(inputs, width)] + ([nn.ReLU()] if last or i + 1 < len(widths) else [])
        inputs = width
    return nn.Sequential(*modules)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.bottom = layers(NUMBERS, BOTTOM, True)
        self.top = layers(WIDTH + (TABLES + 1) * TABLES // 2, TOP, False)
        self.register_buffer("pairs", torch.tril_indices(TABLES + 1, TABLES + 1, -1))

    def forward(self, numbers, pooled):
        dense = self.bottom(numbers)
        vectors = torch.cat([dense.unsqueeze(1), pooled], 1)
        products = vectors @ vectors.transpose(1, 2)
        return self.top(torch.cat([dense, products[:, self.pairs[0], self.pairs[1]]], 1))


class Training:
    def __init__(self, rank, ranks):
        self.ranks, self.samples = ranks, SAMPLES // ranks
        # Tables are dealt out to ranks as evenly as their number allows.
        self.counts = [len(range(of, TABLES, ranks)) for of in range(ranks)]
        self.own = self.counts[rank]
        self.weight = torch.randn(self.own * ROWS, WIDTH, device="cuda") * 0.01
        self.first_rows = (torch.arange(self.own, device="cuda") * ROWS).view(1, self.own, 1, 1)
        self.offsets = torch.arange(0, self.own * SAMPLES * HOTNESS, HOTNESS, device="cuda")
        self.dense = nn.parallel.DistributedDataParallel(Dense().cuda(), gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(self.dense.parameters(), lr=RATE, foreach=True)
        self.numbers = torch.rand(self.samples, NUMBERS, device="cuda")
        self.labels = (torch.rand(self.samples, 1, device="cuda") < 0.3).float()
        uniform = torch.rand(BATCHES, TABLES, self.samples, HOTNESS, dtype=torch.float64)
        exponent = 1.0 - 1.05
        drawn = ((uniform * ((ROWS + 1.0)**exponent - 1.0) + 1.0)**(1 / exponent)).long().clamp(1, ROWS) - 1
        self.batches = [(of * 2_654_435_761 % ROWS).pin_memory() for of in drawn]
        self.copying, self.sending = torch.cuda.Stream(), torch.cuda.Stream()
        self.ids_group = dist.new_group()
        self.steps = 0

    def copied(self):
        self.steps += 1
        return self.batches[self.steps % BATCHES].to("cuda", non_blocking=True)

    def sent(self, ids):
        """Returns the ids of all samples in the tables of this rank, as rows of its weight."""
        per_table = self.samples * HOTNESS
        received = torch.empty(self.ranks * self.own * per_table, dtype=torch.int64, device="cuda")
        # The tables of a rank are the numbers rank, rank + ranks, ...
        ordered = torch.cat([ids[of::self.ranks].reshape(-1) for of in range(self.ranks)])
        dist.all_to_all_single(received, ordered, [self.own * per_table] * self.ranks,
                               [count * per_table for count in self.counts], group=self.ids_group)
        by_rank = received.view(self.ranks, self.own, self.samples, HOTNESS) + self.first_rows
        return by_rank.transpose(0, 1).reshape(-1)  # [tables, samples of all ranks, hotness]

    def train(self, rows):
        pooled = functional.embedding_bag(rows, self.weight, self.offsets, mode="sum")
        to_send = pooled.view(self.own, self.ranks, self.samples, WIDTH).transpose(0, 1).contiguous()
        received = torch.empty(TABLES, self.samples, WIDTH, device="cuda")
        parts = [count * self.samples * WIDTH for count in self.counts]
        own_parts = [self.own * self.samples * WIDTH] * self.ranks
        dist.all_to_all_single(received.view(-1), to_send.view(-1), parts, own_parts)
        vectors = received.transpose(0, 1).detach().requires_grad_()
        self.optimizer.zero_grad(set_to_none=True)
        functional.binary_cross_entropy_with_logits(self.dense(self.numbers, vectors), self.labels).backward()
        gradient = torch.empty(self.ranks, self.own, self.samples, WIDTH, device="cuda")
        dist.all_to_all_single(gradient.view(-1), vectors.grad.transpose(0, 1).contiguous().view(-1), own_parts, parts)
        of_bags = gradient.transpose(0, 1).reshape(-1, 1, WIDTH).expand(-1, HOTNESS, -1)
        self.weight.index_add_(0, rows, of_bags.reshape(-1, WIDTH), alpha=-RATE / self.ranks)
        self.optimizer.step()

    def in_turn(self):
        with torch.no_grad():
            rows = self.sent(self.copied())
        self.train_on(rows)

    def train_on(self, rows):
        rows.record_stream(torch.cuda.current_stream())
        with torch.autograd.set_grad_enabled(True):
            self.train(rows)

    def pipelined(self):
        if not hasattr(self, "rows"):
            self.next_ids = self.copied()
            self.rows = self.sent(self.next_ids)
            self.next_ids = self.copied()
            self.sending.wait_stream(torch.cuda.current_stream())
        current = torch.cuda.current_stream()
        rows, ids = self.rows, self.next_ids
        self.sending.wait_stream(self.copying)
        with torch.cuda.stream(self.sending):
            ids.record_stream(self.sending)
            self.rows = self.sent(ids)
        with torch.cuda.stream(self.copying):
            self.next_ids = self.copied()
        self.train_on(rows)
        current.wait_stream(self.sending)


def steps_of_rank(rank, ranks, options):
    training = Training(rank, ranks)
    runs = []
    for name, step in (("in_turn", training.in_turn), ("pipelined", training.pipelined)):
        torch.cuda.reset_peak_memory_stats()
        times = torch_half_batches.milliseconds(step, options.steps, options.repetitions)
        runs.append({"way": name, "reserved_mib": torch.cuda.max_memory_reserved() / 2**20} | times)
    return "sharded_dlrm", runs


if __name__ == "__main__":
    torch_half_batches.on_all_gpus(steps_of_rank, __doc__.partition("\n")[0], 7, SAMPLES)
