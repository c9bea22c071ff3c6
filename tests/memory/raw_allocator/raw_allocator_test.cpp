// SPDX-License-Identifier: Apache-2.0
#include "memory/raw_allocator/raw_allocator_fixture.hpp"

#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/trace/name_scope.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

template <class R>
class RawAllocation : public RuntimeTest<R> {};
TYPED_TEST_SUITE(RawAllocation, Runtimes, RuntimeNames);

TYPED_TEST(RawAllocation, works_inside_an_operation) {
  RawProgram<TypeParam> program(4);
  Tensor<std::uint8_t, TypeParam> const tensor(program.device, {16});
  issue("with scratch memory", writes(tensor), [&](auto stream) {
    auto* const scratch = program.memory.allocate(kBlockBytes, 256, native(stream));
    program.memory.deallocate(scratch, native(stream));
  });
  program.device.default_group().compute().synchronize();
  EXPECT_EQ(program.device.memory_statistics().allocations, 2U);
}

TYPED_TEST(RawAllocation, alignment_is_as_asked) {
  RawProgram<TypeParam> program(8);
  auto const a = program.stream();
  std::vector<void*> all;
  for (std::size_t alignment = 1; alignment <= kBlockBytes; alignment *= 2) {
    for (auto* const memory :
         {program.memory.allocate(300, alignment, a), program.memory.allocate(300, alignment)}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % std::max<std::size_t>(alignment, 256),
                0U)
          << alignment;
      program.runtime.fill(memory, 1, 300, a);
      program.memory.deallocate(memory, a);
    }
  }
  EXPECT_EQ(program.device.memory_statistics().live_bytes, 0U);
  EXPECT_THROW(static_cast<void>(program.memory.allocate(1, 24, a)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(program.memory.allocate(1, 0)), std::invalid_argument);
}

TYPED_TEST(RawAllocation, nothing_is_null) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  EXPECT_EQ(program.memory.allocate(0, 256, a), nullptr);
  EXPECT_EQ(program.memory.allocate(0), nullptr);
  program.memory.deallocate(nullptr, a);
  program.memory.deallocate(nullptr);
}

TYPED_TEST(RawAllocation, refuses_what_is_not_its_memory) {
  RawProgram<TypeParam> program(2);
  auto const a = program.stream();
  auto* const memory = program.allocate(a);
  int mine = 0;
  EXPECT_TRUE(program.memory.has(memory));
  EXPECT_FALSE(program.memory.has(&mine));
  EXPECT_THROW(program.memory.deallocate(&mine, a), std::invalid_argument);
  EXPECT_THROW(program.memory.deallocate(&mine), std::invalid_argument);
  EXPECT_THROW(program.memory.record_use(&mine, a), std::invalid_argument);
  EXPECT_THROW(program.memory.deallocate(static_cast<std::byte*>(memory) + 256, a),
               std::invalid_argument);
  program.memory.deallocate(memory, a);
  EXPECT_THROW(program.memory.deallocate(memory, a), std::invalid_argument);
  RawAllocator<TypeParam> other(program.device);
  auto* const theirs = other.allocate(kBlockBytes, 256, a);
  EXPECT_THROW(program.memory.deallocate(theirs, a), std::invalid_argument);
  other.deallocate(theirs, a);
}

TYPED_TEST(RawAllocation, too_much_is_out_of_memory) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  constexpr auto kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(static_cast<void>(program.memory.allocate(2 * kBlockBytes, 256, a)), OutOfMemory);
  EXPECT_THROW(static_cast<void>(program.memory.allocate(kMost, 4096, a)), OutOfMemory);
  EXPECT_THROW(static_cast<void>(program.memory.allocate(kMost)), OutOfMemory);
}

TYPED_TEST(RawAllocation, counts_like_any_memory) {
  RawProgram<TypeParam> program(4);
  auto const a = program.stream();
  NameScope const scope("other library");
  auto* const memory = program.allocate(a);
  auto const uses = program.device.memory_by_scope();
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_EQ(uses[0].scope, "other library");
  EXPECT_THAT(uses[0].stream, HasSubstr("foreign stream"));
  EXPECT_EQ(uses[0].bytes, kBlockBytes);
  EXPECT_EQ(program.device.memory_statistics().live_bytes, kBlockBytes);
  program.memory.deallocate(memory, a);
  EXPECT_EQ(program.device.memory_statistics().live_bytes, 0U);
}

TEST(RawAllocationOnHost, what_is_still_out_goes_back_with_the_allocator) {
  auto const device = device_of_blocks<Host>(1);
  auto const stream = device.runtime().create_stream(StreamPriority::normal);
  {
    RawAllocator<Host> memory(device);
    static_cast<void>(memory.allocate(kBlockBytes, 256, stream));
    EXPECT_EQ(device.memory_statistics().live_bytes, kBlockBytes);
  }
  EXPECT_EQ(device.memory_statistics().live_bytes, 0U);
  device.runtime().destroy_stream(stream);
}

}  // namespace
}  // namespace msstream::testing
