// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

struct CUstream_st;

namespace benchmarks {

/// CUB's caching allocator for the current device, tuned to these workloads: bins of powers of two
/// from 256 bytes to 64 MiB, and no bound on what it keeps. Thread-safe. Includes no CUDA header.
class CubCache {
 public:
  CubCache();
  /// All work on its memory is over.
  ~CubCache();
  CubCache(CubCache const&) = delete;
  CubCache& operator=(CubCache const&) = delete;

  /// Null: the device has no more.
  [[nodiscard]] void* allocate(std::size_t bytes, CUstream_st* stream);
  /// For use after what the stream that it was allocated on has so far.
  void free(void* memory);
  [[nodiscard]] std::size_t reserved_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace benchmarks
