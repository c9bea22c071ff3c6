// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// Functions that call CUDA on the default stream. They are compiled with --default-stream
/// per-thread.
namespace msstream::testing::per_thread_default_stream {

void fill(void* device, std::size_t bytes);
/// Copies four rows of 32 bytes from device memory to device memory.
void copy_on_device(void* to, void const* from);
void copy(void* pinned, void const* device, std::size_t bytes);

}  // namespace msstream::testing::per_thread_default_stream
