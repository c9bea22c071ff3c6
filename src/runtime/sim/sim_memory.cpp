// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/sim_memory.hpp"

#include <msstream/base/error.hpp>

#include <fmt/core.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>

namespace msstream::sim {

namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kGarbage = 0xDB;
/// The size in bytes from which memory is mapped directly from the system, which zeroes each page
/// at its first use.
constexpr std::size_t kLarge = std::size_t{64} << 10U;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void* SimMemory::allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (bytes >= kLarge) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = memory == MAP_FAILED ? nullptr : memory;
  } else {
    std::size_t const rounded = rounded_up(bytes == 0 ? 1 : bytes);
    memory = std::aligned_alloc(kAlignment, rounded);
    if (memory != nullptr) {
      std::memset(memory, 0, rounded);
    }
  }
  if (memory == nullptr) {
    throw OutOfMemory(bytes, fmt::format("simulation: the machine has no {} bytes to give", bytes));
  }
  return memory;
}

void SimMemory::release(void* memory, std::size_t bytes) noexcept {
  if (bytes >= kLarge) {
    munmap(memory, bytes);
  } else {
    std::free(memory);
  }
}

void SimMemory::fill_with_garbage(void* memory, std::size_t bytes) noexcept {
  std::memset(memory, kGarbage, bytes);
}

void SimMemory::keep(void* memory, std::size_t bytes) noexcept {
  kept_.push_back({memory, bytes});
}

void SimMemory::release_kept() noexcept {
  for (auto const& kept : kept_) {
    release(kept.memory, kept.bytes);
  }
  kept_.clear();
}

}  // namespace msstream::sim
