// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

struct CUstream_st;

namespace benchmarks {

/// CUB's caching allocator for the current device, tuned to these benchmarks: its bins are the
/// powers of two from 256 bytes to 64 MiB, and the memory that it keeps is unlimited. Thread-safe.
/// This header includes no CUDA header.
class CubCache {
 public:
  CubCache();
  /// Frees all memory of the cache. Requires that all work on it is complete.
  ~CubCache();
  CubCache(CubCache const&) = delete;
  CubCache& operator=(CubCache const&) = delete;

  /// Allocates memory for work on `stream`. Returns null if the device has no memory left.
  [[nodiscard]] void* allocate(std::size_t bytes, CUstream_st* stream);
  /// Frees `memory`. It can be reused after the work enqueued so far on the stream that it was
  /// allocated on.
  void free(void* memory);
  [[nodiscard]] std::size_t reserved_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace benchmarks
