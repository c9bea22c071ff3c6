// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace msstream::sim {

/// Allocates the memory of a simulation: zero-initialised, aligned to 256 bytes.
class SimMemory {
 public:
  SimMemory() = default;
  SimMemory(SimMemory const&) = delete;
  SimMemory& operator=(SimMemory const&) = delete;
  ~SimMemory() { release_kept(); }

  /// Allocates zeroed memory. Throws OutOfMemory if the computer has none left.
  [[nodiscard]] static void* allocate(std::size_t bytes);
  static void release(void* memory, std::size_t bytes) noexcept;
  static void fill_with_garbage(void* memory, std::size_t bytes) noexcept;
  /// Keeps freed memory until release_kept(), for queued work that may still use it by mistake.
  void keep(void* memory, std::size_t bytes) noexcept;
  void release_kept() noexcept;

 private:
  struct Kept {
    void* memory;
    std::size_t bytes;
  };
  std::vector<Kept> kept_;
};

}  // namespace msstream::sim
