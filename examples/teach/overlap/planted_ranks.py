#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causes of lost overlap between two ranks, on two GPUs: planted_ranks.py MODE [--fixed] [--trace FOLDER].

Prints the median time of a step as a line of JSON. Starts its two ranks itself, or is started by `torchrun
--nproc-per-node 2`. With --trace, the last round is recorded by torch.profiler, a file a rank, into that folder.
What to judge is the range "judged" of the recording: recorders begin at another speed in each rank, and steps before
that range make up for it. Without a mode, lists the modes.
"""

import argparse
import contextlib
import ctypes
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

# NVLink multicast must stay off on machines whose GPUs are shared.
os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # streams share no hardware queue

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS, ROUNDS, STEPS, WARM_STEPS = 2, 7, 10, 3
MIB = 1 << 20


def floats(mib, device):
    return torch.ones(mib * MIB // 4, device=device)


def compute(ms):
    """Work that leaves all multiprocessors but one free."""
    torch.cuda._sleep(int(ms * 1_700_000))  # cycles


def reduce(values, group=None):
    """An all-reduce in the stream of its process group; returns what the current stream can wait for."""
    return dist.all_reduce(values, group=group, async_op=True)


def steps_with(parts, device):
    """Steps with so many parts of work on this rank, and an all-reduce."""
    gradient = floats(32, device)

    def step():
        for _ in range(parts):
            compute(1)
        reduce(gradient).wait()
        gradient.mul_(0.5)

    return step


def peer_skew(rank, fixed, device):
    """Rank 1 computes thrice as much before each all-reduce, as padded rows make it. Fixed: no padding."""
    return steps_with(3 if rank == 1 and not fixed else 1, device)


def uneven_rows(rank, fixed, device):
    """Peer skew: rank 1 has three quarters of the rows. Fixed: half of them, so that rank 0 has more to do."""
    return steps_with(2 if fixed else 1 + 2 * rank, device)


def collective_order(_rank, fixed, device):
    """A small all-reduce, needed at once, stands behind a large one of its process group, which is needed at the end.

    Fixed: a process group of its own.
    """
    large, small = floats(256, device), torch.ones(1024, device=device)
    group = dist.new_group(list(range(RANKS))) if fixed else None

    def step():
        compute(0.5)
        at_the_end = reduce(large)
        at_once = reduce(small, group)
        at_once.wait()
        small.mul_(0.5)
        compute(0.5)
        compute(0.5)
        at_the_end.wait()
        large.mul_(0.5)

    return step


class Grid:
    """A kernel whose blocks must all be on the device at once (a cooperative launch), one on a multiprocessor."""

    PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry whole_grid(.param .u64 length)
{
  .reg .pred %again;
  .reg .u64 %begin, %now, %length;
  ld.param.u64 %length, [length];
  mov.u64 %begin, %globaltimer;
more:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %again, %now, %length;
  @%again bra more;
  ret;
}
"""
    SHARED_BYTES = 200 << 10  # no block of NCCL finds room beside it

    def __init__(self, blocks):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.blocks = blocks
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check_device()
        self.call("cuModuleLoadData", ctypes.byref(self.module), self.PTX)
        self.call("cuModuleGetFunction", ctypes.byref(self.function), self.module, b"whole_grid")
        dynamic_shared_bytes = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.call("cuFuncSetAttribute", self.function, dynamic_shared_bytes, self.SHARED_BYTES)

    def check_device(self):
        device, most = ctypes.c_int(), ctypes.c_int()
        most_shared_bytes_of_a_block = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        self.call("cuCtxGetDevice", ctypes.byref(device))
        self.call("cuDeviceGetAttribute", ctypes.byref(most), most_shared_bytes_of_a_block, device)
        if most.value < self.SHARED_BYTES:
            raise RuntimeError(
                f"collective_holds_sms needs {self.SHARED_BYTES >> 10} KiB of shared memory for a block, as GPUs of "
                f"compute capability 9.0 (H100, H200) have, and this GPU has {most.value >> 10} KiB"
            )

    def call(self, name, *arguments):
        error = getattr(self.driver, name)(*arguments)
        if error != 0:
            raise RuntimeError(f"{name}: error {error} of the CUDA driver")

    def launch(self, ms):
        length = ctypes.c_uint64(int(ms * 1e6))
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(length))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        shape = (self.blocks, 1, 1, 256, 1, 1, self.SHARED_BYTES)
        self.call("cuLaunchCooperativeKernel", self.function, *shape, stream, arguments)


def collective_holds_sms(_rank, _fixed, device):
    """An all-reduce of up to 64 blocks takes the multiprocessors that a cooperative kernel needs, and keeps it back.

    Fixed: an all-reduce of at most 16 blocks. blocks_of_collectives() asks for them, and NCCL may take fewer: the cause
    needs more than 24, and the recording has the grid of each collective.
    """
    values = floats(128, device)
    kernel = Grid(torch.cuda.get_device_properties(device).multi_processor_count - 24)

    def step():
        reduction = reduce(values)
        compute(0.05)  # the all-reduce takes its place meanwhile
        kernel.launch(0.6)
        reduction.wait()
        values.mul_(0.5)

    return step


MODES = [peer_skew, uneven_rows, collective_order, collective_holds_sms]


def blocks_of_collectives(options):
    """Asks for a number of blocks of NCCL's kernels; NCCL reads them when a communicator is made."""
    if options.mode == collective_holds_sms.__name__:
        blocks = "16" if options.fixed else "64"
        os.environ["NCCL_MIN_CTAS"] = os.environ["NCCL_MAX_CTAS"] = blocks


@contextlib.contextmanager
def judged():
    """A range that the recorder (NVTX) and torch.profiler (record_function) have in their files."""
    torch.cuda.nvtx.range_push("judged")
    with torch.profiler.record_function("judged"):
        yield
    torch.cuda.nvtx.range_pop()


def work(rank, options, store):
    # The recorder takes the rank from here as CUDA is initialised.
    os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"] = str(rank), str(RANKS), str(rank)
    if torch.cuda.device_count() < RANKS:
        raise RuntimeError(f"planted_ranks.py needs {RANKS} GPUs, found {torch.cuda.device_count()}")
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    blocks_of_collectives(options)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{store}" if store else "env://",
        rank=rank,
        world_size=RANKS,
        device_id=device,
        timeout=datetime.timedelta(seconds=30),
    )
    with torch.no_grad():
        step = next(mode for mode in MODES if mode.__name__ == options.mode)(rank, options.fixed, device)

        def run_round():
            begin = time.perf_counter()
            for _ in range(STEPS):
                step()
            torch.cuda.synchronize()
            return (time.perf_counter() - begin) * 1e6 / STEPS

        def together():
            dist.barrier(device_ids=[rank])
            torch.cuda.synchronize()

        times = []
        for _ in range(ROUNDS + 1):
            together()
            times.append(run_round())
        together()

        def judged_round():
            for _ in range(WARM_STEPS):
                step()
            together()
            with judged():
                run_round()

        if options.trace:
            with torch.profiler.profile() as profile:
                judged_round()
            pathlib.Path(options.trace).mkdir(parents=True, exist_ok=True)
            profile.export_chrome_trace(str(pathlib.Path(options.trace) / f"rank{rank}.json.gz"))
        else:
            torch.cuda.nvtx.range_push("measured")
            judged_round()
            torch.cuda.nvtx.range_pop()
        together()
    if rank == 0:
        line = {"program": "planted_ranks.py", "mode": options.mode, "fixed": options.fixed}
        print(json.dumps({**line, "step_us": round(statistics.median(times[1:]), 2)}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", nargs="?", choices=[mode.__name__ for mode in MODES])
    parser.add_argument("--fixed", action="store_true", help="run the twin without the cause")
    parser.add_argument("--trace", help="a folder for traces by torch.profiler, one a rank")
    options = parser.parse_args()
    if options.mode is None:
        print("\n".join(mode.__name__ for mode in MODES))
    elif "RANK" in os.environ:  # torchrun
        if os.environ.get("WORLD_SIZE") != str(RANKS):
            raise SystemExit(f"planted_ranks.py: expected {RANKS} ranks, found {os.environ.get('WORLD_SIZE')}")
        work(int(os.environ["RANK"]), options, None)
    else:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(work, args=(options, os.path.join(folder, "store")), nprocs=RANKS)


if __name__ == "__main__":
    sys.exit(main())
