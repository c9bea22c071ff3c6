#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves the models of serve_wdl and serve_mlp with PyTorch, and prints the measurements as JSON.

torch_serve.py [--out FILE] [--models wdl,mlp] [--threads 1,4,8] [--seconds 1] [--repetitions 3]

Each query is one of 64. It is copied to pinned memory and from there to the device; the model runs, and its
answer is copied back. The thread that submitted the query waits for the answer and copies it. Uses PyTorch's
defaults except for TF32 products. Modes: eager, with one stream per thread; and captured into a CUDA graph with
the copies, with one graph per thread.
"""
import statistics
import threading
import time

import torch
from torch import nn

import torch_steps

# The sizes of the serve_wdl and serve_mlp examples.
FIELDS, HOTNESS, TABLE_ROWS, DIM, CONTINUOUS, WDL_BATCH = 26, 4, 100_000, 16, 13, 64
HIDDEN = (1024, 512, 256, 1)
MLP, MLP_BATCH = (2048, 1024, 512, 256, 128, 64), 16
WARM_UP_S, QUERIES = 0.2, 64


class WideAndDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.ModuleList(nn.EmbeddingBag(TABLE_ROWS, DIM, mode="mean") for _ in range(FIELDS))
        self.wide = nn.ModuleList(nn.EmbeddingBag(TABLE_ROWS, 1, mode="sum") for _ in range(FIELDS))
        self.linear = nn.Linear(CONTINUOUS, 1)
        layers, width = [], FIELDS * DIM + CONTINUOUS
        for outputs in HIDDEN:
            layers += [nn.Linear(width, outputs), nn.ReLU()]
            width = outputs
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, keys, dense):
        rows = [keys[field] % TABLE_ROWS for field in range(FIELDS)]
        deep = [table(ids) for table, ids in zip(self.deep, rows)]
        wide = sum(table(ids) for table, ids in zip(self.wide, rows)) + self.linear(dense)
        return torch.sigmoid(self.layers(torch.cat(deep + [dense], 1)) + wide)

    @staticmethod
    def query():
        return (torch.randint(0, 1 << 40, (FIELDS, WDL_BATCH, HOTNESS)), torch.rand(WDL_BATCH, CONTINUOUS))


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        for inputs, outputs in zip(MLP, MLP[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, values):
        return self.layers(values)

    @staticmethod
    def query():
        return (torch.randn(MLP_BATCH, MLP[0]),)


class Client:
    """The stream, the buffers and, if captured, the graph of one thread."""

    def __init__(self, model, captured):
        self.model, self.stream, self.done = model, torch.cuda.Stream(), torch.cuda.Event()
        self.queries = [model.query() for _ in range(QUERIES)]
        self.pinned = [part.pin_memory() for part in model.query()]
        with torch.cuda.stream(self.stream), torch.inference_mode():
            self.device = [part.cuda() for part in self.pinned]
            self.answer = self.model(*self.device).cpu().pin_memory()
            self.launch = self.run
            for _ in range(3):
                self.run()
            self.stream.synchronize()
            if captured:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=self.stream):
                    self.run()
                self.launch = graph.replay

    def run(self):
        for to, pinned in zip(self.device, self.pinned):
            to.copy_(pinned, non_blocking=True)
        self.answer.copy_(self.model(*self.device), non_blocking=True)

    def ask(self, seconds, latencies):
        with torch.cuda.stream(self.stream), torch.inference_mode():
            until = time.perf_counter() + seconds
            while (begin := time.perf_counter()) < until:
                for to, part in zip(self.pinned, self.queries[len(latencies) % QUERIES]):
                    to.copy_(part)
                self.launch()
                self.done.record(self.stream)
                self.done.synchronize()
                self.answer.clone()
                latencies.append((time.perf_counter() - begin) * 1e3)


def measured(model, captured, threads, options):
    clients = [Client(model, captured) for _ in range(threads)]
    rates, latencies = [], []
    for repetition in range(options.repetitions + 1):
        of_threads = [[] for _ in clients]
        seconds = WARM_UP_S if repetition == 0 else options.seconds
        asking = [threading.Thread(target=client.ask, args=(seconds, latency))
                  for client, latency in zip(clients, of_threads)]
        begin = time.perf_counter()
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        if repetition > 0:  # repetition 0 is the warm-up
            answered = sum(of_threads, [])
            rates.append(len(answered) / (time.perf_counter() - begin))
            latencies += answered
    latencies.sort()
    return {"captured": captured, "threads": threads, "queries_per_s": statistics.median(rates), "least": min(rates),
            "most": max(rates), "p50_ms": latencies[len(latencies) // 2], "p99_ms": latencies[len(latencies) * 99 // 100]}


def main():
    parser = torch_steps.arguments(__doc__.partition("\n")[0], "")
    parser.add_argument("--models", default="wdl,mlp")
    parser.add_argument("--threads", default="1,4,8")
    parser.add_argument("--seconds", type=float, default=1, help="a repetition")
    parser.set_defaults(repetitions=3)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    runs = {}
    for name in options.models.split(","):
        model = {"wdl": WideAndDeep, "mlp": Perceptron}[name]().cuda().eval()
        runs[name] = [measured(model, captured, int(threads), options)
                      for captured in (False, True) for threads in options.threads.split(",")]
    torch_steps.write(options, "serve", runs)


if __name__ == "__main__":
    main()
