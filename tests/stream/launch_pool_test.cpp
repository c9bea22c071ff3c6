// SPDX-License-Identifier: Apache-2.0
#include "stream/launch_pool.hpp"

#include "stream/stream_fixture.hpp"

#include <msstream/stream/stream_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class LaunchContract : public StreamTest<R> {};
TYPED_TEST_SUITE(LaunchContract, Runtimes);

TYPED_TEST(LaunchContract, launches_on_another_thread_in_the_order_of_issue) {
  StreamPool<TypeParam> pool(this->device(),
                             {.groups = 1, .launch_threads = LaunchThreads::per_group});
  std::vector<int> launched;
  std::thread::id by;
  for (int i = 0; i < 200; ++i) {
    this->run(pool[0].engine(), [&, i](auto) {
      launched.push_back(i);
      by = std::this_thread::get_id();
    });
  }
  pool.synchronize();
  ASSERT_EQ(launched.size(), 200U);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(launched[static_cast<std::size_t>(i)], i);
  }
  EXPECT_NE(by, std::this_thread::get_id());
}

TYPED_TEST(LaunchContract, the_issuer_does_not_wait_for_the_launch) {
  StreamPool<TypeParam> pool(this->device(),
                             {.groups = 1, .launch_threads = LaunchThreads::per_group});
  std::atomic<bool> may_launch{false};
  auto const position = this->run(pool[0].engine(), [&](auto) { may_launch.wait(false); });
  EXPECT_LT(pool[0].compute().engine().slot().launched.load(), position.number);
  EXPECT_FALSE(this->context->tracker->is_complete(position));
  may_launch.store(true);
  may_launch.notify_all();
  pool.synchronize();
}

TYPED_TEST(LaunchContract, a_thread_that_looks_for_work_need_not_be_woken) {
  constexpr std::chrono::hours for_ever{1};
  auto const launcher = std::make_shared<detail::LaunchPool>(
      this->context->tracker, detail::LaunchPoolOptions{.threads = 1, .spin = for_ever});
  detail::StreamGroup group(this->context, 0, {}, launcher);
  for (int i = 0; i < 100; ++i) {
    auto const position = this->run(group, [](auto) {});
    group.compute().slot().await_launched(position.number);
  }
  group.synchronize();
  EXPECT_EQ(launcher->sleeps(), 0U);
}

TYPED_TEST(LaunchContract, a_thread_that_has_nothing_to_launch_sleeps) {
  for (int const spin_us : {0, 20}) {
    auto const launcher = std::make_shared<detail::LaunchPool>(
        this->context->tracker,
        detail::LaunchPoolOptions{.threads = 1, .spin = std::chrono::microseconds(spin_us)});
    detail::StreamGroup group(this->context, 0, {}, launcher);
    for (int i = 0; i < 10; ++i) {
      auto const sleeps = launcher->sleeps();
      this->run(group, [](auto) {});
      group.synchronize();
      while (launcher->sleeps() == sleeps) {  // hangs if the thread stays awake
        std::this_thread::yield();
      }
    }
  }
}

TYPED_TEST(LaunchContract, one_thread_serves_groups_that_depend_on_each_other) {
  constexpr int kGroups = 4;
  for (int const spin_us : {0, 1'000'000}) {
    StreamPool<TypeParam> pool(this->device(),
                               {.groups = kGroups,
                                .launch_threads = LaunchThreads::shared,
                                .launch_thread_count = 1,
                                .launch_spin_us = spin_us});
    auto const x = this->make_cell();
    for (int round = 0; round < 200; ++round) {
      this->write(pool[round % kGroups].engine(), *x, static_cast<std::uint8_t>(round));
      this->read(pool[(round + 1) % kGroups].engine(), *x);
    }
    pool.synchronize();
    EXPECT_EQ(x->cell.seen(), 199);
  }
}

TYPED_TEST(LaunchContract, a_thread_a_group_serves_groups_that_depend_on_each_other) {
  constexpr int kGroups = 3;
  for (int const spin_us : {0, 1'000'000}) {
    StreamPool<TypeParam> pool(
        this->device(),
        {.groups = kGroups, .launch_threads = LaunchThreads::per_group, .launch_spin_us = spin_us});
    auto const x = this->make_cell();
    for (int round = 0; round < 200; ++round) {
      this->write(pool[round % kGroups].engine(), *x, static_cast<std::uint8_t>(round));
    }
    this->read(pool[0].engine(), *x);
    pool.synchronize();
    EXPECT_EQ(x->cell.seen(), 199);
  }
}

TYPED_TEST(LaunchContract, a_task_that_must_not_be_launched_yet_does_not_hold_the_thread) {
  StreamPool<TypeParam> pool(this->device(),
                             {.groups = 2,
                              .launch_threads = LaunchThreads::shared,
                              .launch_thread_count = 1,
                              .launch_spin_us = 1'000'000});
  auto const x = this->make_cell();
  detail::StreamGroup direct(this->context, 9);
  std::atomic<bool> inside{false};
  std::atomic<bool> may_launch{false};
  // The queue of the stream `direct` is [write 7]; another thread delays its launch. The queue of
  // stream group 0 is [read x], which must follow the write.
  std::thread issuer([&] {
    detail::AccessSet accesses;
    accesses.add(x->record, AccessMode::write);
    this->submit(direct, "write", accesses, [&](auto) {
      inside.store(true);
      inside.notify_all();
      may_launch.wait(false);
      x->cell.write(7, this->native(direct.compute()));
    });
  });
  inside.wait(false);
  this->read(pool[0].engine(), *x);
  std::atomic<bool> other_ran{false};
  this->run(pool[1].engine(), [&](auto) {
    other_ran.store(true);
    other_ran.notify_all();
  });
  other_ran.wait(false);  // hangs if the only launch thread waits for the write
  may_launch.store(true);
  may_launch.notify_all();
  issuer.join();
  pool.synchronize();
  EXPECT_EQ(x->cell.seen(), 7);
}

/// Counts how often launch threads wake while three lines wait for a launch that another thread
/// delays. A line is the queue of the tasks of one stream.
TYPED_TEST(LaunchContract, threads_sleep_while_what_there_is_must_not_be_launched_yet) {
  constexpr int kThreads = 2;
  constexpr int kLines = 3;
  for (int const spin_us : {0, 50}) {
    auto const launcher = std::make_shared<detail::LaunchPool>(
        this->context->tracker,
        detail::LaunchPoolOptions{.threads = kThreads, .spin = std::chrono::microseconds(spin_us)});
    auto const x = this->make_cell();
    detail::StreamGroup direct(this->context, 9);
    detail::StreamGroup other(this->context, 10);
    std::vector<std::unique_ptr<detail::StreamGroup>> groups;
    for (int i = 0; i < kLines; ++i) {
      groups.push_back(std::make_unique<detail::StreamGroup>(
          this->context, i, detail::StreamGroupOptions{}, launcher));
    }
    std::atomic<bool> inside{false};
    std::atomic<bool> may_launch{false};
    // The queue of the stream `direct` is [write 7]; another thread delays its launch. The queue of
    // stream group 0 is [read x], and those of the other groups are [empty work]; all must follow
    // the write.
    std::thread issuer([&] {
      detail::AccessSet accesses;
      accesses.add(x->record, AccessMode::write);
      this->submit(direct, "write", accesses, [&](auto) {
        inside.store(true);
        inside.notify_all();
        may_launch.wait(false);
        x->cell.write(7, this->native(direct.compute()));
      });
    });
    inside.wait(false);
    this->read(*groups[0], *x);
    for (int i = 1; i < kLines; ++i) {
      detail::AccessSet accesses;
      accesses.add(x->record, AccessMode::read);
      this->submit(*groups[static_cast<std::size_t>(i)], "nothing", accesses, [](auto) {});
    }
    // Launches on an unrelated stream must not wake the launch threads.
    for (int i = 0; i < 2'000; ++i) {
      this->run(other, [](auto) {});
    }
    // A ring of the launch pool's doorbell lets every launch thread look for work, and sleep again,
    // at most once more. The push to each line, the queue of one stream's tasks, rings once. Later
    // the launch of the write rings once per line and thread, and a thread that takes a line rings
    // for the other threads.
    EXPECT_LE(launcher->sleeps(), static_cast<std::uint64_t>(kThreads * (1 + kLines)));
    may_launch.store(true);
    may_launch.notify_all();
    issuer.join();
    for (auto const& group : groups) {
      group->synchronize();  // hangs if no thread is woken
    }
    EXPECT_EQ(x->cell.seen(), 7);
    EXPECT_LE(launcher->sleeps(),
              static_cast<std::uint64_t>(kThreads * (1 + kLines * (2 + kThreads))));
  }
}

TYPED_TEST(LaunchContract, a_launch_that_lines_wait_for_wakes_a_thread_however_they_meet) {
  constexpr int kRounds = 4'000;
  constexpr int kDelays = 200;
  constexpr int kLines = 3;
  for (int const threads : {1, 2}) {
    auto const launcher = std::make_shared<detail::LaunchPool>(
        this->context->tracker, detail::LaunchPoolOptions{.threads = threads});
    auto const x = this->make_cell();
    detail::StreamGroup direct(this->context, 9);
    std::vector<std::unique_ptr<detail::StreamGroup>> groups;
    for (int i = 0; i < kLines; ++i) {
      groups.push_back(std::make_unique<detail::StreamGroup>(
          this->context, i, detail::StreamGroupOptions{}, launcher));
    }
    std::atomic<int> issued{0};
    std::atomic<int> may_launch{0};
    std::thread issuer([&] {
      for (int round = 1; round <= kRounds; ++round) {
        detail::AccessSet accesses;
        accesses.add(x->record, AccessMode::write);
        this->submit(direct, "write", accesses, [&](auto) {
          issued.store(round);
          while (may_launch.load() < round) {
            std::this_thread::yield();
          }
        });
      }
    });
    for (int round = 1; round <= kRounds; ++round) {
      while (issued.load() < round) {
        std::this_thread::yield();
      }
      detail::AccessSet accesses;
      std::vector<order::Position> reads;
      for (auto const& group : groups) {
        accesses = {};
        accesses.add(x->record, AccessMode::read);
        reads.push_back(this->submit(*group, "read", accesses, [](auto) {}));
      }
      for (int delay = 0; delay < round % kDelays; ++delay) {
        detail::relax_processor();
      }
      may_launch.store(round);            // while the threads fall asleep or are asleep
      for (int i = 0; i < kLines; ++i) {  // hangs if a wake-up is lost
        groups[static_cast<std::size_t>(i)]->compute().slot().await_launched(
            reads[static_cast<std::size_t>(i)].number);
      }
    }
    issuer.join();
  }
}

/// Stops the launch pool on one thread while others push tasks to it, as exit() does.
TYPED_TEST(LaunchContract,
           a_thread_that_pushes_to_a_stopped_pool_gets_an_error_and_the_others_their_launches) {
  auto const launcher = std::make_shared<detail::LaunchPool>(
      this->context->tracker, detail::LaunchPoolOptions{.threads = 1});
  detail::StreamGroup group(this->context, 0, {}, launcher);
  detail::StreamGroup other(this->context, 1, {}, launcher);
  auto const cell = this->make_cell();
  std::atomic<bool> may_launch{false};
  std::atomic<int> launched{0};
  // The queue of the stream group is [work that blocks its launch, launch, launch].
  this->run(group, [&](auto) { may_launch.wait(false); });
  this->run(group, [&](auto) { ++launched; });
  this->run(group, [&](auto) { ++launched; });
  std::thread stopper([&] { launcher->stop(); });
  while (!launcher->is_stopping()) {
    std::this_thread::yield();
  }
  try {
    this->write(other, *cell, 1);
    ADD_FAILURE() << "who would launch it?";
  } catch (std::logic_error const& error) {
    EXPECT_STREQ(error.what(), "work for a launch thread after exit() was called");
  }
  EXPECT_THROW(this->write(other, *cell, 2), std::logic_error) << "behind what was refused";
  EXPECT_EQ(launched.load(), 0);
  // A push to a stopping pool, behind tasks that are still to be launched, throws after the tasks
  // are launched.
  std::thread late([&] {
    EXPECT_THROW(this->run(group, [&](auto) { ++launched; }), std::logic_error);
    EXPECT_EQ(launched.load(), 2);
  });
  may_launch.store(true);
  may_launch.notify_all();
  late.join();
  stopper.join();
  EXPECT_EQ(launched.load(), 2) << "what was queued before";
  for (auto* const refused : {&group, &other}) {
    EXPECT_NO_THROW(refused->synchronize()) << "nothing waits for what was refused";
  }
  launcher->stop();
}

TYPED_TEST(LaunchContract, many_issuers_and_few_threads_launch_everything_in_order) {
  constexpr int kIssuers = 6;
  constexpr int kRounds = 150;
  StreamPool<TypeParam> pool(
      this->device(),
      {.groups = 3, .launch_threads = LaunchThreads::shared, .launch_thread_count = 2});
  auto const x = this->make_cell();
  auto const y = this->make_cell();
  std::vector<std::thread> issuers;
  for (int t = 0; t < kIssuers; ++t) {
    issuers.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        auto& group = pool[(t + i) % 3].engine();
        detail::AccessSet accesses;
        accesses.add(x->record, i % 2 == 0 ? AccessMode::write : AccessMode::read);
        accesses.add(y->record, i % 3 == 0 ? AccessMode::write : AccessMode::read);
        this->submit(group, "touch", accesses, [](auto) {});
      }
    });
  }
  for (auto& issuer : issuers) {
    issuer.join();
  }
  pool.synchronize();
  for (int i = 0; i < 3; ++i) {
    auto& slot = pool[i].compute().engine().slot();
    EXPECT_EQ(slot.launched.load(), slot.reserved.load());
  }
}

}  // namespace
}  // namespace msstream::testing
