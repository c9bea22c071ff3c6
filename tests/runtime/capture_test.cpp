// SPDX-License-Identifier: Apache-2.0
// Tests what capturing.hpp states, on every runtime that can capture.
#include "runtime/gate.hpp"
#include "runtime/runtime_fixture.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/faulty.hpp>
#include <msstream/runtime/sim.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

namespace msstream::testing {
namespace {

static_assert(CapturingRuntime<Faulty<Host>>);
static_assert(!CapturingRuntime<Sim>);
static_assert(CapturingRuntime<Checked<Host>>);
static_assert(!CapturingRuntime<Checked<Sim>>);

/// A fixture for capturing streams. It destroys the captured graphs when the test ends.
template <class R>
class Capture : public RuntimeTest<R> {
 protected:
  using Stream = typename R::native_stream;
  using Graph = typename R::native_graph;
  using Bytes = Cell<R>;

  void TearDown() override {
    for (auto const graph : graphs_) {
      this->runtime->destroy_graph(graph);
    }
    RuntimeTest<R>::TearDown();
  }
  /// Makes later work of the stream `to` wait for the work that the stream `from` has now.
  void follow(Stream to, Stream from) { this->runtime->wait(to, this->recorded(from)); }
  Graph end(Stream origin) { return graphs_.emplace_back(this->runtime->end_capture(origin)); }
  void copy(Bytes& to, Bytes const& from, Stream on) {
    this->runtime->copy(to.device(), from.device(), Bytes::kBytes, CopyKind::d2d, on);
  }
  int value(Bytes& cell, Stream on) {
    cell.read(on);
    this->runtime->synchronize_stream(on);
    return cell.seen();
  }

 private:
  std::vector<Graph> graphs_;
};
TYPED_TEST_SUITE(Capture, PlainRuntimes, RuntimeNames);

TYPED_TEST(Capture, what_is_captured_runs_at_each_launch_and_not_before) {
  auto const s = this->stream();
  Cell<TypeParam> from(this->runtime);
  Cell<TypeParam> to(this->runtime);
  this->runtime->begin_capture(s);
  this->copy(to, from, s);
  auto const graph = this->end(s);
  from.write(7, s);
  EXPECT_EQ(this->value(to, s), 0);
  for (std::uint8_t const value : {1, 2, 3}) {
    from.write(value, s);
    this->runtime->launch_graph(graph, s);
    EXPECT_EQ(this->value(to, s), value);
  }
}

TYPED_TEST(Capture, a_stream_that_waits_for_captured_work_is_captured) {
  auto const origin = this->stream();
  auto const other = this->stream();
  Cell<TypeParam> a(this->runtime);
  Cell<TypeParam> b(this->runtime);
  Cell<TypeParam> c(this->runtime);
  this->runtime->begin_capture(origin);
  a.write(5, origin);
  this->follow(other, origin);
  this->copy(b, a, other);
  this->follow(origin, other);
  this->copy(c, b, origin);
  auto const graph = this->end(origin);
  // After the end of the capture, both streams run work again instead of capturing it.
  a.write(1, other);
  EXPECT_EQ(this->value(a, other), 1);
  EXPECT_EQ(this->value(b, other), 0);
  for (int launch = 0; launch < 50; ++launch) {
    b.write(0, origin);
    c.write(0, origin);
    this->runtime->launch_graph(graph, origin);
    ASSERT_EQ(this->value(c, origin), 5);
  }
}

TYPED_TEST(Capture, copies_of_any_size_and_alignment_leave_their_neighbours_alone) {
  constexpr std::size_t kLarge = std::size_t{256} << 10U;
  constexpr std::size_t kRoom = kLarge + 64;
  auto& device = *this->runtime;
  auto const s = this->stream();
  auto* const from = static_cast<unsigned char*>(device.allocate_pinned(kRoom));
  auto* const to = static_cast<unsigned char*>(device.allocate_pinned(kRoom));
  auto* const there = static_cast<unsigned char*>(device.allocate_device(kRoom));
  for (std::size_t i = 0; i < kRoom; ++i) {
    from[i] = static_cast<unsigned char>(i * 7 + i / 251);
  }
  struct Offsets {
    std::size_t from;
    std::size_t there;
    std::size_t to;
  };
  for (auto const& at : {Offsets{0, 0, 0}, {4, 8, 20}, {1, 0, 16}, {16, 3, 5}}) {
    for (std::size_t const bytes : {std::size_t{1},
                                    std::size_t{15},
                                    std::size_t{16},
                                    std::size_t{4099},
                                    kLarge - 1,
                                    kLarge,
                                    kLarge + 1}) {
      device.begin_capture(s);
      device.fill(there, 0xBB, kRoom, s);
      device.copy(there + at.there, from + at.from, bytes, CopyKind::h2d, s);
      device.copy(to + at.to, there + at.there, bytes + 1, CopyKind::d2h, s);
      auto const graph = this->end(s);
      std::memset(to, 0xAA, kRoom);
      device.launch_graph(graph, s);
      device.synchronize_stream(s);
      ASSERT_EQ(std::memcmp(to + at.to, from + at.from, bytes), 0) << bytes << " bytes";
      EXPECT_EQ(to[at.to + bytes], 0xBB) << "not a byte more to the device";
      EXPECT_EQ(to[at.to + bytes + 1], 0xAA) << "not a byte more to the host";
      EXPECT_TRUE(at.to == 0 || to[at.to - 1] == 0xAA) << "not a byte before";
    }
  }
  device.free_pinned(from, kRoom);
  device.free_pinned(to, kRoom);
  device.free_device(there, kRoom);
}

TYPED_TEST(Capture, streams_beside_it_go_on) {
  auto const origin = this->stream();
  auto const beside = this->stream();
  Cell<TypeParam> cell(this->runtime);
  this->runtime->begin_capture(origin);
  cell.write(9, origin);
  cell.write(3, beside);
  EXPECT_EQ(this->value(cell, beside), 3);
  auto const event = this->recorded(beside);
  this->runtime->synchronize(event);
  EXPECT_TRUE(this->runtime->query(event));
  auto* const memory = this->runtime->allocate_device(256);
  this->runtime->free_device(memory, 256);
  this->runtime->launch_graph(this->end(origin), beside);
  EXPECT_EQ(this->value(cell, beside), 9);
}

TYPED_TEST(Capture, a_host_call_is_made_at_each_launch_and_goes_with_the_graph) {
  auto const s = this->stream();
  auto const calls = std::make_shared<std::atomic<int>>(0);
  this->runtime->begin_capture(s);
  this->runtime->call_host(s, [calls] { calls->fetch_add(1); });
  auto const graph = this->runtime->end_capture(s);
  EXPECT_EQ(calls->load(), 0);
  for (int launch = 0; launch < 3; ++launch) {
    this->runtime->launch_graph(graph, s);
  }
  this->runtime->synchronize_stream(s);
  EXPECT_EQ(calls->load(), 3);
  EXPECT_EQ(calls.use_count(), 2);
  this->runtime->destroy_graph(graph);
  EXPECT_EQ(calls.use_count(), 1);
}

TYPED_TEST(Capture, an_abandoned_capture_leaves_streams_that_work) {
  auto const origin = this->stream();
  auto const other = this->stream();
  Cell<TypeParam> cell(this->runtime);
  this->runtime->begin_capture(origin);
  this->follow(other, origin);
  cell.write(4, other);  // the origin does not wait for this write
  this->runtime->abandon_capture(origin);
  for (auto const stream : {origin, other}) {
    EXPECT_EQ(this->value(cell, stream), 0);
  }
  this->runtime->begin_capture(origin);
  cell.write(6, origin);
  this->runtime->launch_graph(this->end(origin), other);
  EXPECT_EQ(this->value(cell, other), 6);
}

TYPED_TEST(Capture, an_origin_that_does_not_follow_all_of_it_cannot_end_it) {
  auto const origin = this->stream();
  auto const other = this->stream();
  Cell<TypeParam> cell(this->runtime);
  this->runtime->begin_capture(origin);
  this->follow(other, origin);
  cell.write(4, other);
  EXPECT_THROW(static_cast<void>(this->runtime->end_capture(origin)), RuntimeError);
  EXPECT_EQ(this->value(cell, origin), 0);
  EXPECT_EQ(this->value(cell, other), 0);
}

TYPED_TEST(Capture, what_a_capture_cannot_have_throws) {
  auto const origin = this->stream();
  auto const of_outside = this->recorded(this->stream());
  auto const refuses = [&](char const* what, auto&& mistake) {
    this->runtime->begin_capture(origin);
    EXPECT_TRUE(this->runtime->is_capture_sound(origin)) << what;
    EXPECT_THROW(mistake(), RuntimeError) << what;
    EXPECT_FALSE(this->runtime->is_capture_sound(origin)) << what;
    this->runtime->abandon_capture(origin);
    EXPECT_NO_THROW(this->runtime->synchronize_stream(origin)) << what;
  };
  refuses("a wait for outside", [&] { this->runtime->wait(origin, of_outside); });
  refuses("a query", [&] { static_cast<void>(this->runtime->query(this->recorded(origin))); });
  refuses("a host wait", [&] { this->runtime->synchronize(this->recorded(origin)); });
  refuses("a wait for the stream", [&] { this->runtime->synchronize_stream(origin); });
}

TYPED_TEST(Capture, a_captured_event_can_be_recorded_again) {
  auto const origin = this->stream();
  this->runtime->begin_capture(origin);
  auto const captured = this->recorded(origin);
  static_cast<void>(this->end(origin));
  this->runtime->record(captured, origin);
  this->runtime->synchronize(captured);
  EXPECT_TRUE(this->runtime->query(captured));
}

class HostCaptures : public Capture<Host> {};

TEST_F(HostCaptures, a_mistake_spoils_the_capture) {
  auto const origin = stream();
  auto const of_outside = recorded(stream());
  runtime->begin_capture(origin);
  EXPECT_THROW(runtime->wait(origin, of_outside), RuntimeError);
  EXPECT_THROW(static_cast<void>(runtime->end_capture(origin)), RuntimeError);
  EXPECT_NO_THROW(runtime->synchronize_stream(origin));
}

TEST_F(HostCaptures, an_event_of_a_capture_that_is_over_stands_for_nothing_that_ran) {
  auto const origin = stream();
  runtime->begin_capture(origin);
  auto const captured = recorded(origin);
  static_cast<void>(end(origin));
  EXPECT_THROW(runtime->synchronize(captured), RuntimeError);
  EXPECT_THROW(runtime->wait(origin, captured), RuntimeError);
}

TEST_F(HostCaptures, two_captures_do_not_meet) {
  auto const first = stream();
  auto const second = stream();
  runtime->begin_capture(first);
  runtime->begin_capture(second);
  auto const event = recorded(first);
  EXPECT_THROW(runtime->wait(second, event), RuntimeError);
  EXPECT_THROW(static_cast<void>(runtime->end_capture(first)), RuntimeError);
  EXPECT_THROW(static_cast<void>(runtime->end_capture(second)), RuntimeError);
}

/// Launches a graph of three captured branches, which may run in any order, 100 times. All 6 orders
/// must occur.
TEST_F(HostCaptures, what_is_not_ordered_runs_in_every_order) {
  auto const origin = stream();
  std::array const branches{stream(), stream(), stream()};
  auto const seen = std::make_shared<std::vector<int>>();
  runtime->begin_capture(origin);
  for (std::size_t i = 0; i < branches.size(); ++i) {
    follow(branches[i], origin);
    runtime->call_host(branches[i], [seen, i] { seen->push_back(static_cast<int>(i)); });
  }
  for (auto const branch : branches) {
    follow(origin, branch);
  }
  runtime->call_host(origin, [seen] { seen->push_back(3); });
  auto const graph = end(origin);
  std::set<std::vector<int>> orders;
  for (int launch = 0; launch < 100; ++launch) {
    seen->clear();
    runtime->launch_graph(graph, origin);
    runtime->synchronize_stream(origin);
    ASSERT_EQ(seen->size(), 4U);
    ASSERT_EQ(seen->back(), 3);
    orders.insert(*seen);
  }
  EXPECT_EQ(orders.size(), 6U);
}

TEST_F(HostCaptures, a_failure_in_a_launch_is_the_streams) {
  auto const s = stream();
  runtime->begin_capture(s);
  runtime->call_host(s, [] { throw std::runtime_error("captured"); });
  auto const graph = end(s);
  EXPECT_NO_THROW(runtime->synchronize_stream(s));
  runtime->launch_graph(graph, s);
  EXPECT_THROW(runtime->synchronize_stream(s), std::runtime_error);
}

TEST(FaultyCapture, each_of_its_calls_may_fail) {
  auto const plan = std::make_shared<FaultPlan>();
  Faulty<Host> runtime({.plan = plan});
  auto const s = runtime.create_stream(StreamPriority::normal);
  plan->fail(RuntimeCall::begin_capture, 1, Fault::launch_failure);
  EXPECT_THROW(runtime.begin_capture(s), CudaError);
  plan->fail(RuntimeCall::end_capture, 1, Fault::launch_failure);
  runtime.begin_capture(s);
  EXPECT_THROW(static_cast<void>(runtime.end_capture(s)), CudaError);
  EXPECT_NO_THROW(runtime.synchronize_stream(s));
  plan->fail(RuntimeCall::launch_graph, 1, Fault::launch_failure);
  runtime.begin_capture(s);
  auto const graph = runtime.end_capture(s);
  EXPECT_THROW(runtime.launch_graph(graph, s), CudaError);
  EXPECT_NO_THROW(runtime.launch_graph(graph, s));
  runtime.synchronize_stream(s);
  runtime.destroy_graph(graph);
  runtime.destroy_stream(s);
}

}  // namespace
}  // namespace msstream::testing
