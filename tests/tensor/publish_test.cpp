// SPDX-License-Identifier: Apache-2.0
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"
#include "stream/stream.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/publish.hpp>

#include <gtest/gtest.h>

namespace msstream::testing {
namespace {

template <class R>
class Publish : public RuntimeTest<R> {};
TYPED_TEST_SUITE(Publish, Runtimes, RuntimeNames);

enum class Published : std::uint8_t { no, afterwards, as_issued };

/// Returns whether a reader on another group passes work that the writer's stream gets after the
/// write, because the reader waits for the write only.
template <Runtime R>
[[nodiscard]] bool reader_passes_a_held_writer(Published published) {
  Device<R> const device;
  StreamPool<R> pool(device, {.groups = 2});
  Tensor<float, R> const source(device, {16});
  Tensor<float, R> const copied(device, {16});
  Gate gate;
  // The queue of stream group 0 is [write `source`, wait for the test's gate]; that of stream group
  // 1 is [wait for the write, read `source`].
  auto const write = [&] { fill_bytes(source, 1); };
  if (published == Published::as_issued) {
    issue_published(pool[0], write);
  } else {
    StreamScope const writer(pool[0]);
    write();
  }
  if (published == Published::afterwards) {
    publish(source);
  }
  gate.hold(pool[0].compute());
  static_cast<void>(pool[0].compute().engine().mark());
  StreamScope const reader(pool[1]);
  copy(copied, source);
  auto const read = pool[1].compute().record();
  if (published != Published::no) {
    read.synchronize();  // hangs if the reader waits for the gate
    return true;
  }
  bool const passed = read.query();
  gate.open();
  read.synchronize();
  return passed;
}

TYPED_TEST(Publish, reader_waits_for_the_write_and_not_for_what_came_after) {
  EXPECT_TRUE(reader_passes_a_held_writer<TypeParam>(Published::afterwards));
  EXPECT_TRUE(reader_passes_a_held_writer<TypeParam>(Published::as_issued));
}

TYPED_TEST(Publish, without_it_the_reader_waits_for_the_tail_of_the_stream) {
  EXPECT_FALSE(reader_passes_a_held_writer<TypeParam>(Published::no));
}

}  // namespace
}  // namespace msstream::testing
