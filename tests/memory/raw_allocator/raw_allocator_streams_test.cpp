// SPDX-License-Identifier: Apache-2.0
// Tests which stream gets memory that another stream has deallocated, and after which waits. The
// streams are created by the runtime, not by msstream.
#include "memory/raw_allocator/raw_allocator_fixture.hpp"
#include "memory/watched_runtime.hpp"
#include "stream/stream_context.hpp"
#include "stream/stream_registry.hpp"

#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

template <class R>
class RawAllocationStreams : public RuntimeTest<R> {};
TYPED_TEST_SUITE(RawAllocationStreams, Runtimes, RuntimeNames);

TYPED_TEST(RawAllocationStreams, its_own_stream_gets_memory_back_at_once) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  // The queue of stream a is [wait for the test's gate, write 1, write 2].
  auto* const first = program.returned_in_flight(a);
  auto* const second = program.allocate(a);
  EXPECT_EQ(second, first);
  EXPECT_EQ(program.waits(), 0U);
  program.expect_overwrites(second, a);
}

TYPED_TEST(RawAllocationStreams, another_stream_gets_other_memory_while_there_is_some) {
  RawProgram<TypeParam> program(2);
  auto const a = program.stream();
  auto const b = program.stream();
  auto* const first = program.allocate(a);
  auto* const other = program.allocate(b);  // mapped before the gate closes
  program.memory.deallocate(other, b);
  program.write_behind_gate(first, a);
  program.memory.deallocate(first, a);
  auto* const second = program.allocate(b);
  program.write(second, 2, b);
  EXPECT_NE(second, first);
  EXPECT_EQ(program.read(second, b), 2);  // with the gate closed: b waits for nothing
}

TYPED_TEST(RawAllocationStreams, another_stream_waits_for_what_the_memory_was_used_for) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  auto const b = program.stream();
  // The queue of stream a is [wait for the test's gate, write 1]; that of stream b is [wait for a,
  // write 2].
  auto* const first = program.returned_in_flight(a);
  auto* const second = program.allocate(b);
  EXPECT_EQ(second, first);
  EXPECT_EQ(program.waits(), 1U);
  program.expect_overwrites(second, b);
}

TYPED_TEST(RawAllocationStreams, it_is_the_returning_stream_that_is_waited_for) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  auto const b = program.stream();
  // The queue of stream b is [wait for the test's gate, write 1]; that of stream a is [wait for b,
  // write 2].
  static_cast<void>(program.returned_in_flight(a, b));
  auto* const second = program.allocate(a);
  EXPECT_EQ(program.waits(), 1U);
  program.expect_overwrites(second, a);
}

TYPED_TEST(RawAllocationStreams,
           a_recorded_use_is_waited_for_with_all_that_comes_until_the_return) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  auto const c = program.stream();
  auto* const first = program.allocate(a);
  program.memory.record_use(first, c);
  program.memory.record_use(first, c);
  // The queue of stream c is [wait for the test's gate, write 1]; that of stream a is [wait for c,
  // write 2].
  program.write_behind_gate(first, c);
  program.memory.deallocate(first, a);
  auto* const second = program.allocate(a);
  EXPECT_EQ(program.waits(), 1U);
  program.expect_overwrites(second, a);
}

TYPED_TEST(RawAllocationStreams, a_stream_may_be_destroyed_with_work_in_flight) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  // Stream a is destroyed while its queue is [wait for the test's gate, write 1]; the queue of
  // stream b is [wait for a, write 2].
  static_cast<void>(program.returned_in_flight(a));
  program.destroy(a);
  auto b = program.stream();
  for (int tries = 0; tries < 32 && b != a; ++tries) {  // CUDA reuses a destroyed stream's handle
    b = program.stream();
  }
  auto* const second = program.allocate(b);
  EXPECT_EQ(program.waits(), 1U);
  program.expect_overwrites(second, b);
}

TYPED_TEST(RawAllocationStreams, memory_for_anybody_needs_no_wait_before_or_after) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  auto const b = program.stream();
  auto* const first = program.memory.allocate(kBlockBytes);
  program.write(first, 1, a);
  program.runtime.synchronize_stream(a);
  program.memory.deallocate(first);
  auto* const second = program.allocate(b);
  EXPECT_EQ(second, first);
  EXPECT_EQ(program.waits(), 0U);
}

TYPED_TEST(RawAllocationStreams, more_streams_come_and_go_than_can_be_at_once) {
  RawProgram<TypeParam> program(1);
  for (unsigned i = 0; i < detail::StreamRegistry::kMaxStreams + 300; ++i) {
    auto const stream = program.stream();
    program.memory.deallocate(program.memory.allocate(256, 256, stream), stream);
    program.runtime.synchronize_stream(stream);
    program.destroy(stream);
  }
}

TYPED_TEST(RawAllocationStreams,
           a_tensor_waits_for_the_last_use_by_pointer_and_the_other_way_round) {
  RawProgram<TypeParam> program(1);
  auto const a = program.stream();
  static_cast<void>(program.device.default_group());  // created before the gate closes
  static_cast<void>(program.returned_in_flight(a));
  {
    Tensor<std::uint8_t, TypeParam> const tensor(program.device, {std::int64_t{kBlockBytes}});
    issue("write", writes(tensor), [&](auto stream) {
      program.runtime.fill(tensor.data(), 3, kBlockBytes, native(stream));
    });
    EXPECT_EQ(program.waits(), 1U);
  }
  // The queue of stream a is [wait for the test's gate, write 1, wait for write 3, write 2]; that
  // of the default group is [wait for write 1, write 3].
  auto* const last = program.allocate(a);
  EXPECT_EQ(program.waits(), 2U);
  program.expect_overwrites(last, a);
}

TEST(RawAllocationStreamsOnHost, memory_for_anybody_waits_for_its_last_uses) {
  Journal journal;
  RawProgram<Watched<Host>> program(1);
  watch_waits(watch_of(program.device), program.gate, journal);
  auto const a = program.stream();
  auto* const first = program.allocate(a);
  // The queue of stream a is [wait for the test's gate, write].
  program.hold(a);
  program.runtime.call_host(a, journal.entry("write"));
  program.memory.deallocate(first, a);
  EXPECT_EQ(program.memory.allocate(kBlockBytes), first);
  journal.add("allocated");
  EXPECT_THAT(journal.entries(), ElementsAre("write", "allocated"));
}

TEST(RawAllocationStreamsOnHost, a_device_that_goes_waits_for_streams_that_are_gone) {
  Journal journal;
  Gate gate;
  std::optional device(device_of_blocks<Watched<Host>>(1));
  watch_waits(watch_of(*device), gate, journal);
  std::optional<RawAllocator<Watched<Host>>> memory(std::in_place, *device);
  auto const kept = device->context()->runtime;
  auto& runtime = device->runtime();
  auto const stream = runtime.create_stream(StreamPriority::normal);
  auto* const block = memory->allocate(kBlockBytes, 256, stream);
  // The queue of the stream is [wait for the test's gate, write].
  gate.block(runtime, stream);
  runtime.call_host(stream, journal.entry("write"));
  memory->deallocate(block, stream);
  runtime.destroy_stream(stream);
  memory.reset();
  device.reset();
  EXPECT_THAT(journal.entries(), ElementsAre("write", "free"));
}

}  // namespace
}  // namespace msstream::testing
