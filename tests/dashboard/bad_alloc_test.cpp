// SPDX-License-Identifier: Apache-2.0
// Tests that no step is counted twice or lost, whichever allocation of fold() fails.
#include "dashboard/board.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace {

/// The number of allocations that the calling thread may still make; -1 is no limit.
thread_local std::int64_t allocations_left = -1;

void* allocate(std::size_t bytes) {
  if (allocations_left == 0) {
    allocations_left = -1;
    throw std::bad_alloc();
  }
  allocations_left -= allocations_left > 0 ? 1 : 0;
  if (auto* const memory = std::malloc(bytes == 0 ? 1 : bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes);
}
// For memory that the caller can do without, such as that of std::stable_sort().
void* operator new(std::size_t bytes, std::nothrow_t const& /*tag*/) noexcept {
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace msstream::dashboard {
namespace {

TEST(BoardInShortMemory, counts_each_step_once) {
  int failures = 0;
  bool has_failed = true;
  for (std::int64_t may = 0; has_failed; ++may) {
    Board board({});
    for (int i = 0; i < 40; ++i) {
      board.note_step(1, 1);
    }
    board.note_metric("AUC", 0.5);
    board.note_memory({}, std::vector<StreamMemory>(3));
    has_failed = false;
    allocations_left = may;
    try {
      board.fold();
    } catch (std::bad_alloc const&) {
      has_failed = true;
      ++failures;
    }
    allocations_left = -1;
    board.note_step(2, 1);
    board.fold();  // state_json() folds again: fold() exchanges two lists
    auto const state = nlohmann::json::parse(board.state_json());
    EXPECT_EQ(state["step"], 41) << may;
    EXPECT_EQ(state["losses"]["x"].back(), 41) << may;
    auto const left_out = state["steps_left_out"].get<std::int64_t>();
    EXPECT_EQ(state["rows"], 41 - left_out) << may;
    EXPECT_LT(left_out, 40) << may;
    EXPECT_EQ(left_out == 0 || has_failed, true) << may;
  }
  EXPECT_GT(failures, 6);  // the storage of two curves grows, and of the metrics and the groups
}

}  // namespace
}  // namespace msstream::dashboard
