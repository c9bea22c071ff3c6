// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_fixture.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

/// A fixture for tests of how a group launches its operations.
template <class R>
class GroupContract : public StreamTest<R> {
 protected:
  using Group = detail::StreamGroup;

  std::shared_ptr<Group> make_group(int index, detail::StreamGroupOptions const& options = {}) {
    return std::make_shared<Group>(this->context, index, options);
  }
  std::shared_ptr<Group> make_launched_group(int index) {
    auto launcher =
        std::make_shared<detail::LaunchPool>(this->context->tracker, detail::LaunchPoolOptions{});
    return std::make_shared<Group>(
        this->context, index, detail::StreamGroupOptions{}, std::move(launcher));
  }
};
TYPED_TEST_SUITE(GroupContract, Runtimes);

TYPED_TEST(GroupContract, has_three_streams_or_one) {
  auto const split = this->make_group(0);
  EXPECT_FALSE(split->merged());
  EXPECT_NE(&split->compute(), &split->h2d());
  EXPECT_NE(&split->compute(), &split->d2h());
  EXPECT_NE(&split->h2d(), &split->d2h());
  auto const merged = this->make_group(1, {.merge_streams = true});
  EXPECT_TRUE(merged->merged());
  EXPECT_EQ(&merged->compute(), &merged->h2d());
  EXPECT_EQ(&merged->compute(), &merged->d2h());
  EXPECT_EQ(merged->name(), "group 1");
  for (auto const priority : {StreamPriority::low, StreamPriority::high}) {
    this->make_group(2, {.priority = priority})->synchronize();
  }
}

TYPED_TEST(GroupContract, reads_after_writes_across_groups) {
  auto const x = this->make_cell();
  auto const producer = this->make_group(0);
  auto const consumer = this->make_group(1);
  Gate gate;
  // The queue of `producer` is [wait for the test's gate, write 1]; that of `consumer` is [wait for
  // the write, read].
  gate.block(this->runtime(), this->native(producer->compute()));
  this->write(*producer, *x, 1);
  auto const position = this->read(*consumer, *x);
  EXPECT_FALSE(this->context->tracker->is_complete(position));
  gate.open();
  consumer->synchronize();
  EXPECT_EQ(x->cell.seen(), 1);
  EXPECT_EQ(this->counts().issued, 1U);
}

TYPED_TEST(GroupContract, writes_after_reads_and_after_writes_across_groups) {
  auto const x = this->make_cell();
  auto const first = this->make_group(0);
  auto const second = this->make_group(1);
  Gate gate;
  // The queue of `first` is [wait for the test's gate, write 1, read]; that of `second` is [wait
  // for the read, write 2, write 3].
  gate.block(this->runtime(), this->native(first->compute()));
  this->write(*first, *x, 1);
  this->read(*first, *x);
  this->write(*second, *x, 2);
  this->write(*second, *x, 3);
  gate.open();
  first->synchronize();
  EXPECT_EQ(x->cell.seen(), 1) << "the read came before the writes of the other group";
  this->read(*first, *x);
  first->synchronize();
  EXPECT_EQ(x->cell.seen(), 3);
}

TYPED_TEST(GroupContract, reads_do_not_wait_for_reads) {
  auto const x = this->make_cell();
  auto const first = this->make_group(0);
  auto const second = this->make_group(1);
  Gate gate;
  gate.block(this->runtime(), this->native(first->compute()));
  detail::AccessSet accesses;
  accesses.add(x->record, AccessMode::read);
  this->submit(*first, "read", accesses, [](auto) {});
  this->read(*second, *x);
  second->compute().synchronize();
  EXPECT_EQ(this->counts().needed, 0U);
}

TYPED_TEST(GroupContract, orders_the_streams_of_one_group) {
  auto const x = this->make_cell();
  auto const group = this->make_group(0);
  Gate gate;
  gate.block(this->runtime(), this->native(group->h2d()));
  this->write(*group, *x, 1, StreamKind::h2d);
  this->write(*group, *x, 2, StreamKind::compute);
  this->read(*group, *x, StreamKind::d2h);
  EXPECT_EQ(this->counts().issued, 2U);
  gate.open();
  group->synchronize();
  EXPECT_EQ(x->cell.seen(), 2);
}

TYPED_TEST(GroupContract, a_merged_group_needs_no_waits) {
  auto const x = this->make_cell();
  auto const group = this->make_group(0, {.merge_streams = true});
  this->write(*group, *x, 1, StreamKind::h2d);
  this->write(*group, *x, 2, StreamKind::compute);
  this->read(*group, *x, StreamKind::d2h);
  EXPECT_EQ(this->counts().needed, 0U);
  group->synchronize();
  EXPECT_EQ(x->cell.seen(), 2);
}

TYPED_TEST(GroupContract, an_exception_in_work_comes_out_and_leaves_all_usable) {
  auto const x = this->make_cell();
  auto const group = this->make_group(0);
  auto const other = this->make_group(1);
  detail::AccessSet accesses;
  accesses.add(x->record, AccessMode::write);
  EXPECT_THROW(
      this->submit(*group, "fails", accesses, [](auto) { throw std::range_error("in work"); }),
      std::range_error);
  auto& slot = group->compute().slot();
  EXPECT_EQ(slot.launched.load(), slot.reserved.load()) << "or those who follow wait for ever";
  this->write(*other, *x, 4);
  this->read(*group, *x);
  group->synchronize();
  EXPECT_EQ(x->cell.seen(), 4);
}

TYPED_TEST(GroupContract, an_exception_on_a_launch_thread_comes_back_to_the_caller_once) {
  auto const x = this->make_cell();
  auto const group = this->make_launched_group(0);
  this->run(*group, [](auto) { throw std::range_error("on the launch thread"); });
  EXPECT_THROW(group->synchronize(), std::range_error);
  EXPECT_NO_THROW(group->synchronize());
  this->write(*group, *x, 6);
  this->read(*group, *x);
  group->synchronize();
  EXPECT_EQ(x->cell.seen(), 6);
}

TYPED_TEST(GroupContract, one_launch_failure_is_thrown_to_one_of_many_threads) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 300; ++round) {
    detail::LaunchFailure failure;
    failure.keep(std::make_exception_ptr(std::range_error("once")));
    std::atomic<int> caught{0};
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        ready.fetch_add(1);
        while (ready.load() < kThreads) {
          std::this_thread::yield();
        }
        try {
          failure.rethrow();
        } catch (std::range_error const&) {
          caught.fetch_add(1);
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    ASSERT_EQ(caught.load(), 1);
  }
}

TYPED_TEST(GroupContract, work_that_issues_work_is_refused) {
  auto const group = this->make_group(0);
  auto const other = this->make_group(1);
  auto const launched = this->make_launched_group(2);
  for (auto const& target : {group, other}) {
    EXPECT_THROW(this->run(*group, [&](auto) { this->run(*target, [](auto) {}); }),
                 std::logic_error);
  }
  this->run(*launched, [&](auto) { this->run(*launched, [](auto) {}); });
  EXPECT_THROW(launched->synchronize(), std::logic_error);
  this->run(*group, [](auto) {});
  group->synchronize();
}

TYPED_TEST(GroupContract, destroying_a_group_launches_what_it_was_given) {
  auto const x = this->make_cell();
  auto const reader = this->make_group(1);
  {
    auto const group = this->make_launched_group(0);
    for (std::uint8_t value = 1; value <= 50; ++value) {
      this->write(*group, *x, value);
    }
  }
  this->read(*reader, *x);
  reader->synchronize();
  EXPECT_EQ(x->cell.seen(), 50);
}

}  // namespace
}  // namespace msstream::testing
