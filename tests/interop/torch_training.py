#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one PyTorch model twice, with PyTorch's allocator and with msstream's, each in a process of its own, and
compares: torch_training.py --library libmsstream_torch.so [--steps N].

The losses must be the same bits. Prints step times and peak memory of both as JSON. Exits with 77 without PyTorch or
a GPU. The model is what the allocator has to be right for: branches on four streams, whose tensors are made on one
stream, used on another and dropped while the work still runs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SKIPPED = 77
STREAMS = 4
ROWS, DIM, BATCH, HOTNESS = 20_000, 64, 1024, 8
ROOT = Path(__file__).resolve().parents[2]


def make_model(torch):
    class Branches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            nn = torch.nn
            self.bags = nn.ModuleList(nn.EmbeddingBag(ROWS, DIM, mode="sum") for _ in range(2 * STREAMS))
            self.towers = nn.ModuleList(
                nn.Sequential(nn.Linear(2 * DIM, 256), nn.ReLU(), nn.Linear(256, 64)) for _ in range(STREAMS))
            self.top = nn.Sequential(nn.Linear(64 * STREAMS, 128), nn.ReLU(), nn.Linear(128, 1))

        def forward(self, ids, streams):
            main = torch.cuda.current_stream()
            outputs = []
            for i, stream in enumerate(streams):
                stream.wait_stream(main)
                with torch.cuda.stream(stream):
                    mine = ids[2 * i:2 * i + 2]
                    for field in mine:
                        field.record_stream(stream)
                    pooled = [self.bags[2 * i + j](field) for j, field in enumerate(mine)]
                    outputs.append(self.towers[i](torch.cat(pooled, dim=1)))
            for stream, output in zip(streams, outputs):
                main.wait_stream(stream)
                output.record_stream(main)
            return self.top(torch.cat(outputs, dim=1)).squeeze(1)

    return Branches().cuda()


def train(torch, steps):
    """Trains the model; returns the losses and the seconds of each step."""
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    model = make_model(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = torch.nn.BCEWithLogitsLoss()
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]
    random = torch.Generator().manual_seed(2)
    losses, seconds = [], []
    for step in range(steps):
        # The batch size changes from step to step, so that memory does not always go to the same
        # tensor.
        batch = BATCH - 32 * (step % 8)
        ids = [torch.randint(ROWS, (batch, HOTNESS), generator=random) for _ in range(2 * STREAMS)]
        labels = torch.rand(batch, generator=random).round()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        logits = model([field.cuda(non_blocking=True) for field in ids], streams)
        loss = criterion(logits, labels.cuda(non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        del logits, loss
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return [value.item().hex() for value in losses], seconds


def check_interface(torch, msstream_torch):
    """Checks what else the module promises: errors, statistics, empty_cache() and snapshots."""
    try:
        torch.empty(1 << 46, dtype=torch.uint8, device="cuda")
        raise AssertionError("64 TiB were allocated")
    except torch.OutOfMemoryError as error:
        assert "bytes asked" in str(error), error
    before = msstream_torch.statistics()
    block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    assert msstream_torch.statistics()["live_bytes"] - before["live_bytes"] >= 64 << 20
    del block
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert msstream_torch.statistics()["reserved_bytes"] <= before["reserved_bytes"]
    snapshot = msstream_torch.snapshot("cuda:0")
    assert snapshot["version"] == 1 and snapshot["ranges"]


def check_record_stream(torch):
    """Checks that memory which a busy stream still reads is not given out again."""
    busy = torch.cuda.Stream()
    for round_ in range(20):
        source = torch.full((1 << 20,), round_, dtype=torch.int32, device="cuda")
        seen = torch.empty_like(source)
        busy.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(busy):
            torch.cuda._sleep(2_000_000)
            seen.copy_(source)
        source.record_stream(busy)
        seen.record_stream(busy)
        del source
        torch.full((1 << 20,), -1, dtype=torch.int32, device="cuda")
        busy.synchronize()
        assert bool((seen == round_).all()), f"round {round_}: the memory changed under the copy"


def run_child(library, steps):
    import torch
    if library:
        sys.path.insert(0, str(ROOT / "interop" / "pytorch"))
        import msstream_torch
        msstream_torch.install(library)  # before anything is allocated on a GPU
    losses, seconds = train(torch, steps)
    if library:
        counts = msstream_torch.statistics()
        peaks = {"peak_reserved_bytes": counts["peak_reserved_bytes"], "peak_allocated_bytes": counts["peak_live_bytes"]}
        check_interface(torch, msstream_torch)
    else:
        peaks = {"peak_reserved_bytes": torch.cuda.max_memory_reserved(),
                 "peak_allocated_bytes": torch.cuda.max_memory_allocated()}
    check_record_stream(torch)
    warm = sorted(seconds[len(seconds) // 5:])
    quantiles = statistics.quantiles(warm, n=10)
    print(json.dumps({"losses": losses, "step_ms_median": 1e3 * statistics.median(warm),
                      "step_ms_10_percent": 1e3 * quantiles[0], "step_ms_90_percent": 1e3 * quantiles[-1], **peaks}))


def result_of(library, steps):
    command = [sys.executable, __file__, "--child", "--steps", str(steps)]
    if library:
        command += ["--library", library]
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=False, help="libmsstream_torch.so")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run_child(options.library, options.steps)
    if not options.library:
        parser.error("--library is needed")
    try:
        import torch
    except ImportError:
        print("SKIPPED: there is no PyTorch")
        return SKIPPED
    if not torch.cuda.is_available():
        print("SKIPPED: PyTorch sees no GPU")
        return SKIPPED
    native = result_of(None, options.steps)
    ours = result_of(options.library, options.steps)
    losses = native.pop("losses"), ours.pop("losses")
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "steps": options.steps,
                      "pytorch": native, "msstream": ours, "same_losses": losses[0] == losses[1]}, indent=1))
    if losses[0] != losses[1]:
        first = next(i for i, pair in enumerate(zip(*losses)) if pair[0] != pair[1])
        print(f"FAILED: step {first}: {losses[0][first]} with PyTorch's allocator, {losses[1][first]} with msstream's")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
