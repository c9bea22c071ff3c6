// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class SpanContract : public StreamTest<R> {
 protected:
  using Group = detail::StreamGroup;
  std::shared_ptr<Group> make_group(int index, detail::StreamGroupOptions const& options = {}) {
    return std::make_shared<Group>(this->context, index, options);
  }
  static trace::Timeline::Span const& span(trace::Timeline const& timeline,
                                           std::string const& name) {
    auto const found = std::find_if(timeline.spans().begin(),
                                    timeline.spans().end(),
                                    [&](auto const& candidate) { return candidate.name == name; });
    if (found == timeline.spans().end()) {
      throw std::runtime_error("no span " + name);
    }
    return *found;
  }
};
TYPED_TEST_SUITE(SpanContract, Runtimes);

TYPED_TEST(SpanContract, records_operations_between_start_and_stop_in_order) {
  auto const group = this->make_group(2, {.merge_streams = true});
  auto const x = this->make_cell();
  auto& spans = this->context->spans;
  this->write(*group, *x, 1);
  spans.start(group->compute().native());
  {
    NameScope const scope("tower");
    this->write(*group, *x, 2);
  }
  this->read(*group, *x);
  auto const timeline = spans.stop();
  this->write(*group, *x, 3);
  ASSERT_EQ(timeline.spans().size(), 2U);
  auto const first = this->span(timeline, "tower/write");
  auto const second = this->span(timeline, "read");
  EXPECT_EQ(first.lane, "group 2");
  EXPECT_LE(0, first.begin_ns);
  EXPECT_LE(first.begin_ns, first.end_ns);
  EXPECT_LE(first.end_ns, second.begin_ns);
  EXPECT_LE(second.begin_ns, second.end_ns);
  group->synchronize();
}

TYPED_TEST(SpanContract, shows_that_streams_overlapped) {
  auto const a = this->make_group(0);
  auto const b = this->make_group(1);
  auto const x = this->make_cell();
  Gate gate;
  this->context->spans.start(a->compute().native());
  // The queue of a is [held operation: wait for the test's gate]. The write on b is complete before
  // the gate opens.
  auto& runtime = this->runtime();
  auto const native = this->native(a->compute());
  this->run(*a, [&](auto) { gate.block(runtime, native); });
  this->write(*b, *x, 1);
  b->compute().synchronize();
  gate.open();
  auto const timeline = this->context->spans.stop();
  auto const held = this->span(timeline, "run");
  auto const inside = this->span(timeline, "write");
  EXPECT_EQ(held.lane, "group 0 compute");
  EXPECT_EQ(inside.lane, "group 1 compute");
  EXPECT_LE(inside.end_ns, held.end_ns);
  EXPECT_LT(inside.begin_ns, held.end_ns);
}

TYPED_TEST(SpanContract, names_operations_by_the_scope_of_the_thread_that_issued_them) {
  auto launcher =
      std::make_shared<detail::LaunchPool>(this->context->tracker, detail::LaunchPoolOptions{});
  auto const group = std::make_shared<detail::StreamGroup>(
      this->context, 0, detail::StreamGroupOptions{}, std::move(launcher));
  this->context->spans.start(group->compute().native());
  {
    NameScope const scope("tower");
    this->run(*group, [](auto) {});
  }
  group->synchronize();
  EXPECT_NO_THROW((void)this->span(this->context->spans.stop(), "tower/run"));
}

TYPED_TEST(SpanContract, work_that_throws_leaves_no_span) {
  auto const group = this->make_group(0);
  this->context->spans.start(group->compute().native());
  EXPECT_THROW(this->run(*group, [](auto) { throw std::range_error("in work"); }),
               std::range_error);
  this->run(*group, [](auto) {});
  EXPECT_EQ(this->context->spans.stop().spans().size(), 1U);
}

TYPED_TEST(SpanContract, a_second_recording_forgets_the_first) {
  auto const group = this->make_group(0);
  this->context->spans.start(group->compute().native());
  this->run(*group, [](auto) {});
  this->context->spans.start(group->compute().native());
  EXPECT_TRUE(this->context->spans.stop().spans().empty());
  EXPECT_THROW((void)this->context->spans.stop(), std::logic_error);
}

TYPED_TEST(SpanContract, a_held_operation_begins_when_all_of_it_is_launched) {
  auto const group = this->make_group(0);
  auto& runtime = this->runtime();
  auto const native = this->native(group->compute());
  std::shared_ptr<void> const keeps_event(runtime.create_event(EventTiming::untimed),
                                          [&](auto* event) { runtime.destroy_event(event); });
  auto const event = static_cast<typename TypeParam::native_event>(keeps_event.get());
  this->context->spans.start(native, SpanTiming::held);
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kMostAttempts = 100;
  std::size_t attempts = 0;
  bool began_early = false;
  Clock::duration launching{};
  do {  // repeats while a busy machine makes the launch last longer than a hold's patience
    if (attempts == kMostAttempts) {
      GTEST_SKIP() << "no launch was over before its hold gave up";
    }
    ++attempts;
    began_early = false;
    auto const begin = Clock::now();
    this->run(*group, [&](auto) {
      runtime.record(event, native);
      // Waits long enough for a stream that is not held to reach the event, and less long than a
      // hold waits before it gives up.
      while (!began_early && Clock::now() < begin + std::chrono::milliseconds(20)) {
        std::this_thread::yield();
        began_early = runtime.query(event);
      }
      launching = Clock::now() - begin;
    });
    group->synchronize();
  } while (launching >= detail::StreamHold::kPatience);
  EXPECT_FALSE(began_early);
  EXPECT_EQ(this->context->spans.stop().spans().size(), attempts);
}

TYPED_TEST(SpanContract, held_operations_of_different_groups_run_one_after_the_other) {
  auto const first = this->make_group(0);
  auto const second = this->make_group(1);
  auto& runtime = this->runtime();
  std::atomic<bool> second_is_launched{false};
  std::atomic<bool> first_is_over{false};
  this->context->spans.start(first->compute().native(), SpanTiming::held);
  this->run(*first, [&](auto) {
    runtime.call_host(this->native(first->compute()), [&] {
      // Waits long enough for the second operation to launch, if nothing prevents it.
      auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (!second_is_launched && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
      first_is_over = !second_is_launched;
    });
  });
  this->run(*second, [&](auto) {
    second_is_launched = true;
    EXPECT_TRUE(first_is_over);
  });
  auto const spans = this->context->spans.stop().spans();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_LE(spans[0].end_ns, spans[1].begin_ns);
}

TYPED_TEST(SpanContract, a_held_operation_that_throws_holds_nobody_up) {
  auto const group = this->make_group(0);
  this->context->spans.start(group->compute().native(), SpanTiming::held);
  EXPECT_THROW(this->run(*group, [](auto) { throw std::range_error("in work"); }),
               std::range_error);
  group->synchronize();  // takes the hold's full time limit if the hold is not released
  EXPECT_TRUE(this->context->spans.stop().spans().empty());
}

}  // namespace
}  // namespace msstream::testing
