#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Imports msstream_torch as it is installed, and installs its allocator into a stand-in for PyTorch: torch_module.py.

The library is the real one. It needs no GPU until memory is allocated.
"""

import ctypes
import os
import sys
import types


class Allocator:
    """Keeps what torch.cuda.memory.CUDAPluggableAllocator is given."""

    def __init__(self, path, malloc, free):
        library = ctypes.CDLL(path)
        self.functions = {"malloc": getattr(library, malloc), "free": getattr(library, free)}
        self.path = path

    def allocator(self):
        return self

    def set_record_stream_fn(self, address):
        self.functions["record_stream"] = address

    def set_reset_fn(self, address):
        self.functions["reset"] = address

    def set_memory_fraction_fn(self, address):
        self.functions["memory_fraction"] = address


chosen = []
torch = types.ModuleType("torch")
torch.__version__ = "stand-in"
torch.cuda = types.SimpleNamespace(
    memory=types.SimpleNamespace(CUDAPluggableAllocator=Allocator, change_current_allocator=chosen.append),
    current_device=lambda: 0)
sys.modules["torch"] = torch

import msstream_torch  # noqa: E402  (after its stand-in)

msstream_torch.install()
[allocator] = chosen
missing = [name for name in ("malloc", "free", "record_stream", "reset", "memory_fraction")
           if not allocator.functions.get(name)]
if missing:
    sys.exit(f"msstream_torch.install() gave PyTorch no function {', '.join(missing)}")
if os.path.dirname(allocator.path) != os.path.dirname(msstream_torch.__file__):
    sys.exit(f"{allocator.path} is not beside {msstream_torch.__file__}")
print(allocator.path)
