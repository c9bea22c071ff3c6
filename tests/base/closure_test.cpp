// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/closure.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace msstream {
namespace {

struct Counts {
  int calls = 0;
  int moves = 0;
  int destroyed = 0;
  int allocations = 0;
  int frees = 0;
};

/// A callable of at least `Bytes` bytes that counts its calls, moves and destructions, and the
/// allocations and frees of its heap memory.
template <std::size_t Bytes, bool NothrowMove = true, std::size_t Alignment = alignof(void*)>
struct alignas(Alignment) Counting {
  explicit Counting(Counts& counts) : counts_(&counts) { last_counts = &counts; }
  Counting(Counting&& other) noexcept(NothrowMove)
      : counts_(other.counts_), filling_(other.filling_) {
    ++counts_->moves;
  }
  ~Counting() { ++counts_->destroyed; }
  void operator()() {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % Alignment, 0U);
    ++counts_->calls;
  }

  static void* operator new(std::size_t bytes, std::align_val_t alignment) {
    ++last_counts->allocations;
    return ::operator new(bytes, alignment);
  }
  static void* operator new(std::size_t bytes) {
    ++last_counts->allocations;
    return ::operator new(bytes);
  }
  static void* operator new(std::size_t, void* place) noexcept { return place; }
  static void operator delete(void* memory, std::align_val_t alignment) {
    ++last_counts->frees;
    ::operator delete(memory, alignment);
  }
  static void operator delete(void* memory) {
    ++last_counts->frees;
    ::operator delete(memory);
  }

  static inline Counts* last_counts = nullptr;

 private:
  Counts* counts_;
  std::array<std::byte, Bytes - sizeof(Counts*)> filling_{};
};

template <class Callable>
void expect_life_cycle(bool on_heap) {
  Counts counts;
  {
    Closure first{Callable(counts)};
    EXPECT_EQ(counts.moves, 1);
    EXPECT_EQ(counts.destroyed, 1) << "the temporary";
    first();
    first();
    EXPECT_EQ(counts.calls, 2);

    Closure second(std::move(first));
    EXPECT_EQ(counts.moves, on_heap ? 1 : 2) << "on the heap only the pointer moves";
    EXPECT_EQ(counts.destroyed, on_heap ? 1 : 2);
    first();  // NOLINT(bugprone-use-after-move): a moved-from closure does nothing
    EXPECT_EQ(counts.calls, 2);
    second();
    EXPECT_EQ(counts.calls, 3);
  }
  EXPECT_EQ(counts.destroyed, on_heap ? 2 : 3) << "as many as were made";
  EXPECT_EQ(counts.allocations, on_heap ? 1 : 0);
  EXPECT_EQ(counts.frees, on_heap ? 1 : 0);
}

TEST(Closure, keeps_up_to_256_bytes_inline) {
  expect_life_cycle<Counting<16>>(false);
  expect_life_cycle<Counting<256>>(false);
}

TEST(Closure, puts_on_the_heap_what_is_large_over_aligned_or_may_throw_when_moved) {
  expect_life_cycle<Counting<264>>(true);
  expect_life_cycle<Counting<64, true, 64>>(true);
  expect_life_cycle<Counting<16, false>>(true);
}

TEST(Closure, destroys_what_it_held_when_assigned) {
  Counts old_counts;
  Counts new_counts;
  Closure target{Counting<16>(old_counts)};
  Closure source{Counting<16>(new_counts)};
  int const destroyed_before = old_counts.destroyed;
  target = std::move(source);
  EXPECT_EQ(old_counts.destroyed, destroyed_before + 1);
  target();
  EXPECT_EQ(new_counts.calls, 1);
  EXPECT_EQ(old_counts.calls, 0);
}

TEST(Closure, survives_assignment_to_itself) {
  Counts counts;
  Closure closure{Counting<16>(counts)};
  Closure& alias = closure;
  closure = std::move(alias);
  closure();
  EXPECT_EQ(counts.calls, 1);
}

TEST(Closure, holds_move_only_callables_and_their_state) {
  auto result = std::make_unique<int>(0);
  int& seen = *result;
  Closure closure{[owned = std::move(result), next = 1]() mutable { *owned += next++; }};
  closure();
  closure();
  EXPECT_EQ(seen, 3);
}

TEST(Closure, lets_exceptions_out) {
  Closure closure{[] { throw std::runtime_error("from inside"); }};
  EXPECT_THROW(closure(), std::runtime_error);
  EXPECT_THROW(closure(), std::runtime_error) << "and can be called again";
}

TEST(Closure, is_made_from_callables_only) {
  static_assert(!std::is_constructible_v<Closure, int>);
  static_assert(!std::is_constructible_v<Closure, void (*)(int)>);
  static_assert(!std::is_copy_constructible_v<Closure>);
  static_assert(std::is_nothrow_move_constructible_v<Closure>);
}

}  // namespace
}  // namespace msstream
