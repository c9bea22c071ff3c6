# SPDX-License-Identifier: Apache-2.0
"""msstream as PyTorch's CUDA allocator:

    import msstream_torch
    msstream_torch.install()  # before anything is allocated on a GPU

docs/interop.md says what is guaranteed, and which environment variables there are.
"""
import ctypes
import json
import os
from pathlib import Path

import torch

_library = None
_allocator = None  # kept alive: PyTorch has only a bare pointer to it


def install(path=None):
    """Makes msstream the allocator of all GPUs. Raises RuntimeError once PyTorch has used another one.

    Loads the shared library at `path`, or in $MSSTREAM_TORCH_LIBRARY, or beside this file.
    """
    global _library, _allocator
    if _library is not None:
        return
    path = str(path or os.environ.get("MSSTREAM_TORCH_LIBRARY") or Path(__file__).with_name("libmsstream_torch.so"))
    library = ctypes.CDLL(path)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "msstream_torch_malloc", "msstream_torch_free")
    inner = allocator.allocator()
    if not hasattr(inner, "set_record_stream_fn"):
        raise RuntimeError(f"PyTorch {torch.__version__} cannot tell an allocator of Tensor.record_stream()")
    inner.set_record_stream_fn(_address(library.msstream_torch_record_stream))
    inner.set_reset_fn(_address(library.msstream_torch_empty_cache))
    inner.set_memory_fraction_fn(_address(library.msstream_torch_set_memory_fraction))
    library.msstream_torch_snapshot.restype = ctypes.c_void_p
    library.msstream_torch_snapshot.argtypes = [ctypes.c_int, ctypes.c_int]
    library.msstream_torch_free_text.argtypes = [ctypes.c_void_p]
    torch.cuda.memory.change_current_allocator(allocator)
    _library, _allocator = library, allocator


def statistics(device=None):
    """Returns the allocator's numbers on a GPU, as a dict: live_bytes, peak_live_bytes, reserved_bytes and so on."""
    return _snapshot(device, False)["statistics"]


def snapshot(device=None):
    """Returns the allocator's statistics on a GPU, its memory ranges, and the latest events, as a dict.

    Events are kept if $MSSTREAM_MEMORY_HISTORY says how many. `tools/msstream-memory` draws the dict, saved as JSON.
    """
    return _snapshot(device, True)


def _snapshot(device, whole):
    if _library is None:
        raise RuntimeError("msstream_torch.install() has not been called")
    ordinal = None if device is None else torch.device(device).index
    if ordinal is None:
        ordinal = torch.cuda.current_device()
    text = _library.msstream_torch_snapshot(ordinal, whole)
    if text is None:
        raise RuntimeError("msstream: no snapshot; stderr has the reason")
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        _library.msstream_torch_free_text(text)


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value
