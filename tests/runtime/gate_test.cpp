// SPDX-License-Identifier: Apache-2.0
#include "runtime/gate.hpp"

#include "runtime/runtime_fixture.hpp"

#include <gtest/gtest.h>

namespace msstream::testing {
namespace {

// Uses runtimes that do not check for races, because the tests write and read a cell without a
// wait.
template <class R>
using GateTest = RuntimeTest<R>;
TYPED_TEST_SUITE(GateTest, PlainRuntimes);

TYPED_TEST(GateTest, holds_its_stream_until_it_is_opened) {
  auto const held = this->stream();
  auto const free = this->stream();
  Cell<TypeParam> cell(this->runtime);
  Gate gate;
  // The queue of `held` is [wait for the test's gate, write 1, record after]; that of `free` is
  // [read].
  gate.block(*this->runtime, held);
  cell.write(1, held);
  auto const after = this->recorded(held);
  cell.read(free);
  this->runtime->synchronize_stream(free);
  EXPECT_EQ(cell.seen(), 0) << "the write is behind the gate";
  EXPECT_FALSE(this->runtime->query(after));
  gate.open();
  this->runtime->synchronize(after);
  EXPECT_TRUE(this->runtime->query(after));
  cell.read(free);
  this->runtime->synchronize_stream(free);
  EXPECT_EQ(cell.seen(), 1);
}

TYPED_TEST(GateTest, lets_all_through_once_open_and_opens_at_its_end) {
  auto const stream = this->stream();
  {
    Gate gate;
    gate.block(*this->runtime, stream);
  }
  Gate open;
  open.open();
  open.block(*this->runtime, stream);
  this->runtime->synchronize_stream(stream);
}

}  // namespace
}  // namespace msstream::testing
