// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_fixture.hpp"

#include <msstream/base/format.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class StreamContract : public StreamTest<R> {};
TYPED_TEST_SUITE(StreamContract, Runtimes);

TYPED_TEST(StreamContract, an_old_event_does_not_cover_later_work) {
  Stream<TypeParam> a(this->device());
  Stream<TypeParam> b(this->device());
  Gate gate;
  // The queue of stream a is [record e, wait for the test's gate]; that of stream b is [wait for
  // e].
  auto const e = a.record();
  gate.block(this->runtime(), a.native());
  b.wait(e);
  b.synchronize();
  EXPECT_TRUE(e.query());
  EXPECT_FALSE(a.record().query());
}

TYPED_TEST(StreamContract, an_event_covers_work_put_on_the_native_stream) {
  Stream<TypeParam> a(this->device());
  Stream<TypeParam> b(this->device());
  Cell<TypeParam> cell(this->share_runtime());
  Gate gate;
  gate.block(this->runtime(), a.native());
  cell.write(1, a.native());
  b.wait(a.record());
  cell.read(b.native());
  auto const done = b.record();
  EXPECT_FALSE(done.query());
  gate.open();
  done.synchronize();
  EXPECT_EQ(cell.seen(), 1);
}

TYPED_TEST(StreamContract, a_stream_does_not_wait_for_itself) {
  Stream<TypeParam> a(this->device());
  a.wait(a.record());
  EXPECT_EQ(this->counts().needed, 0U);
  a.synchronize();
}

TYPED_TEST(StreamContract, a_recycled_event_carries_no_stale_order) {
  Stream<TypeParam> a(this->device());
  Stream<TypeParam> b(this->device());
  Cell<TypeParam> cell(this->share_runtime());
  for (int i = 0; i < 100; ++i) {  // records each of a's recent events again
    b.wait(a.record());
  }
  Gate gate;
  // The queue of stream a is [… wait for the test's gate, write 1, record e]; that of stream b is
  // [… wait for e, read].
  gate.block(this->runtime(), a.native());
  cell.write(1, a.native());
  b.wait(a.record());
  cell.read(b.native());
  auto const done = b.record();
  EXPECT_FALSE(done.query());
  gate.open();
  done.synchronize();
  EXPECT_EQ(cell.seen(), 1);
}

TYPED_TEST(StreamContract, an_event_that_a_user_holds_keeps_its_meaning) {
  Stream<TypeParam> a(this->device());
  Stream<TypeParam> b(this->device());
  Gate gate;
  auto const old = a.record();
  auto const position = old.position();
  auto const native = old.native();
  gate.block(this->runtime(), a.native());
  for (int i = 0; i < 40; ++i) {
    EXPECT_NE(a.record().native(), native) << "recorded again while it was held";
  }
  EXPECT_EQ(old.position(), position);
  old.synchronize();
  b.wait(old);
  b.synchronize();
}

TYPED_TEST(StreamContract, a_chain_of_waits_spares_the_last_one) {
  constexpr std::size_t kStreams = 10;
  std::vector<std::unique_ptr<Stream<TypeParam>>> chain;
  std::vector<Event<TypeParam>> events;
  Gate gate;  // nothing completes, so only the clocks can elide a wait
  for (std::size_t i = 0; i < kStreams; ++i) {
    chain.push_back(std::make_unique<Stream<TypeParam>>(this->device()));
    if (i == 0) {
      gate.block(this->runtime(), chain[0]->native());
    } else {
      chain[i]->wait(events.back());
    }
    events.push_back(chain[i]->record());
  }
  EXPECT_EQ(this->counts().issued, kStreams - 1);
  for (auto const& event : events) {
    chain.back()->wait(event);
  }
  EXPECT_EQ(this->counts().issued, kStreams - 1) << "the last stream is after all of them";
  EXPECT_EQ(this->counts().elided, kStreams - 1) << "its own event needs no wait";
  chain.front()->wait(events.back());
  EXPECT_EQ(this->counts().issued, kStreams) << "order goes one way";
}

TYPED_TEST(StreamContract, a_wait_for_what_the_host_has_seen_is_spared) {
  Stream<TypeParam> a(this->device());
  Stream<TypeParam> b(this->device());
  auto const e = a.record();
  e.synchronize();
  b.wait(e);
  EXPECT_EQ(this->counts().issued, 0U);
  EXPECT_EQ(this->counts().elided, 1U);
}

TYPED_TEST(StreamContract, without_reduction_every_wait_is_issued) {
  auto const mine = this->make_context({.reduce_waits = false, .explain = {}});
  Stream<TypeParam> a(this->device_of(mine));
  Stream<TypeParam> b(this->device_of(mine));
  Gate gate;
  gate.hold(a);
  auto const e = a.record();
  b.wait(e);
  b.wait(e);
  EXPECT_EQ(mine->tracker->wait_counts().issued, 2U);
  EXPECT_EQ(mine->tracker->wait_counts().elided, 0U);
}

TYPED_TEST(StreamContract, explains_which_wait_covers) {
  std::vector<std::string> sentences;
  auto const mine = this->make_context(
      {.reduce_waits = true, .explain = [&](auto const& said) { sentences.push_back(said); }});
  Stream<TypeParam> a(this->device_of(mine));
  Stream<TypeParam> b(this->device_of(mine));
  Stream<TypeParam> c(this->device_of(mine));
  Gate gate;
  gate.hold(a);
  auto const first = a.record();
  b.wait(first);
  auto const second = b.record();
  c.wait(second);
  EXPECT_TRUE(sentences.empty());
  c.wait(first);
  ASSERT_EQ(sentences.size(), 1U);
  EXPECT_EQ(sentences[0],
            fmt::format("no wait of stream {} for {}: covered by its wait for {}",
                        c.engine().slot().index,
                        first.position(),
                        second.position()));
  gate.open();
  second.synchronize();
  c.wait(second);
  EXPECT_NE(sentences.back().find("known to be complete"), std::string::npos);
}

TYPED_TEST(StreamContract, destroying_a_stream_with_work_in_flight_keeps_its_order) {
  std::optional<Stream<TypeParam>> a(std::in_place, this->device());
  Stream<TypeParam> b(this->device());
  Cell<TypeParam> cell(this->share_runtime());
  Gate gate;
  gate.block(this->runtime(), a->native());
  cell.write(1, a->native());
  auto const e = a->record();
  a.reset();
  Stream<TypeParam> newcomer(this->device());  // must not reuse the slot of running work
  EXPECT_NE(newcomer.engine().slot().index, e.position().stream);
  b.wait(e);
  cell.read(b.native());
  EXPECT_FALSE(e.query());
  gate.open();
  b.synchronize();
  EXPECT_EQ(cell.seen(), 1);
  EXPECT_TRUE(e.query());
}

TYPED_TEST(StreamContract, work_marked_on_a_gone_stream_is_still_waited_for) {
  Stream<TypeParam> b(this->device());
  Cell<TypeParam> cell(this->share_runtime());
  Gate gate;
  order::PositionSet needed;
  {
    Stream<TypeParam> a(this->device());
    gate.block(this->runtime(), a.native());
    cell.write(1, a.native());
    needed.add(a.engine().mark());  // no event is recorded before the stream is gone
  }
  this->context->tracker->while_idle(
      b.engine().slot(), [&] { this->context->tracker->order_after(b.engine().slot(), needed); });
  cell.read(b.native());
  gate.open();
  b.synchronize();
  EXPECT_EQ(cell.seen(), 1);
}

TYPED_TEST(StreamContract, a_closed_stream_is_refused_and_closes_again) {
  Stream<TypeParam> stream(this->device());
  Stream<TypeParam> other(this->device());
  auto const event = stream.record();
  stream.engine().close();
  stream.engine().close();
  EXPECT_THROW(static_cast<void>(stream.record()), std::logic_error);
  EXPECT_THROW(static_cast<void>(stream.engine().mark()), std::logic_error);
  EXPECT_THROW(static_cast<void>(stream.engine().slot()), std::logic_error);
  EXPECT_THROW(stream.wait(other.record()), std::logic_error);
  other.wait(event);
  event.synchronize();
}

TYPED_TEST(StreamContract, slots_of_gone_streams_are_taken_again_and_numbering_goes_on) {
  Stream<TypeParam> watcher(this->device());
  order::StreamIndex most = 0;
  std::vector<std::uint64_t> newest(16, 0);
  std::optional<Event<TypeParam>> held;
  for (int cycle = 0; cycle < 1000; ++cycle) {
    Stream<TypeParam> passing(this->device());
    auto const event = passing.record();
    auto const position = event.position();
    most = std::max(most, position.stream);
    ASSERT_LT(position.stream, newest.size());
    ASSERT_GT(position.number, newest[position.stream]) << "a position came to mean something else";
    newest[position.stream] = position.number;
    event.synchronize();
    if (cycle == 0) {
      held = event;
    }
  }
  EXPECT_LE(most, 1U) << "each stream was complete before the next was made";
  EXPECT_TRUE(held->query());
  watcher.wait(*held);
  EXPECT_EQ(this->counts().issued, 0U);
}

TYPED_TEST(StreamContract, a_new_stream_does_not_inherit_the_order_of_its_slot) {
  Stream<TypeParam> a(this->device());
  order::StreamIndex slot = 0;
  Gate gate;
  gate.block(this->runtime(), a.native());
  auto const e = a.record();
  {
    Stream<TypeParam> old(this->device());
    old.synchronize();
    slot = old.engine().slot().index;
  }
  Stream<TypeParam> fresh(this->device());
  ASSERT_EQ(fresh.engine().slot().index, slot);
  fresh.wait(e);
  EXPECT_EQ(this->counts().issued, 1U);
}

TYPED_TEST(StreamContract, events_may_be_recorded_and_waited_for_by_many_threads) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 300;
  Stream<TypeParam> shared(this->device());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      Stream<TypeParam> own(this->device());
      for (int i = 0; i < kRounds; ++i) {
        own.wait(shared.record());
        auto const mine = own.record();
        shared.wait(mine);
        (void)mine.query();
        (void)this->context->tracker->outstanding(shared.engine().slot());
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  shared.synchronize();
  auto const counts = this->counts();
  EXPECT_EQ(counts.needed, counts.issued + counts.elided);
  EXPECT_EQ(counts.needed, std::uint64_t{2} * kThreads * kRounds);
}

TYPED_TEST(StreamContract, outstanding_work_is_counted_until_it_is_seen_complete) {
  Stream<TypeParam> a(this->device());
  Gate gate;
  auto& tracker = *this->context->tracker;
  EXPECT_EQ(tracker.outstanding(a.engine().slot()), 0U);
  gate.block(this->runtime(), a.native());
  auto const first = a.record();
  auto const second = a.record();
  EXPECT_EQ(tracker.outstanding(a.engine().slot()), 2U);
  EXPECT_FALSE(tracker.is_complete(first.position()));
  gate.open();
  second.synchronize();
  EXPECT_TRUE(tracker.is_complete(first.position()));
  EXPECT_EQ(tracker.outstanding(a.engine().slot()), 0U);
}

TYPED_TEST(StreamContract, an_event_of_another_tracker_is_refused) {
  Stream<TypeParam> a(this->device());
  Stream<TypeParam> stranger(this->device_of(this->make_context()));
  EXPECT_THROW(a.wait(stranger.record()), std::invalid_argument);
  a.synchronize();
}

TYPED_TEST(StreamContract,
           asking_for_an_event_inside_work_is_refused_and_leaves_the_stream_usable) {
  auto const group = std::make_shared<detail::StreamGroup>(this->context, 0);
  detail::AccessSet none;
  EXPECT_THROW(
      this->submit(
          *group, "ask", none, [&](auto) { static_cast<void>(group->compute().record()); }),
      std::logic_error);
  group->synchronize();
}

TYPED_TEST(StreamContract, a_wait_for_an_old_event_is_not_a_wait_for_a_younger_one) {
  Stream<TypeParam> a(this->device());
  Stream<TypeParam> b(this->device());
  Gate gate;
  // The queue of stream a is [record old, wait for the test's gate, 20 younger records]; that of
  // stream b is [wait for old]. The stream keeps fewer than 20 events.
  auto const old = a.record();
  gate.block(this->runtime(), a.native());
  for (int i = 0; i < 20; ++i) {
    static_cast<void>(a.record());
  }
  b.wait(old);
  b.synchronize();  // hangs if b waits for a young event
  gate.open();
  a.synchronize();
}

}  // namespace
}  // namespace msstream::testing
