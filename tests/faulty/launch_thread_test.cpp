// SPDX-License-Identifier: Apache-2.0
// Tests of failures on launch threads: what happens to work queued after them, and when they are
// reported.
#include "memory/runtimes.hpp"
#include "stream/dependency_tracker.hpp"
#include "stream/stream.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::Each;

template <class R>
class LaunchThread : public RuntimeTest<R> {};
TYPED_TEST_SUITE(LaunchThread, Runtimes, RuntimeNames);

/// Work that fails on the launch thread, but only after the test has queued all other work.
class LateFailure {
 public:
  [[nodiscard]] auto work() const {
    return [queued = queued_](auto) {
      queued->wait(false);
      throw std::runtime_error("late");
    };
  }
  void all_is_queued() {
    queued_->store(true);
    queued_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> queued_ = std::make_shared<std::atomic<bool>>(false);
};

TYPED_TEST(LaunchThread, work_behind_a_failure_is_not_launched_others_is) {
  for (auto const threads : {LaunchThreads::shared, LaunchThreads::per_group}) {
    Device<TypeParam> const device;
    StreamPool<TypeParam> pool(device, {.groups = 3, .launch_threads = threads});
    auto const x = zeros<float>(device, {4});
    auto const y = zeros<float>(device, {4});
    auto const z = zeros<float>(device, {4});
    std::atomic<int> followers{0};
    std::atomic<int> others{0};
    LateFailure failure;
    auto const issue_on = [&](int group, auto&& read, auto&& written, auto work) {
      StreamScope const scope(pool[group]);
      issue("op", read, written, work);
    };
    // Work on three groups: group 0 = [x = failure], group 1 = [y = f(x)], group 2 = [z = g(y),
    // unrelated].
    auto const unrelated = zeros<float>(device, {4});
    issue_on(0, reads(z), writes(x), failure.work());
    issue_on(1, reads(x), writes(y), [&](auto) { ++followers; });
    issue_on(2, reads(y), writes(z), [&](auto) { ++followers; });
    issue_on(2, reads(unrelated), writes(unrelated), [&](auto) { ++others; });
    failure.all_is_queued();
    EXPECT_THROW(pool.synchronize(), std::runtime_error);
    EXPECT_EQ(followers.load(), 0);
    EXPECT_EQ(others.load(), 1);
    EXPECT_NO_THROW(pool.synchronize()) << "it comes out once";
    // New work on the tensors of the failed operation runs, because the failure has been reported.
    issue_on(1, reads(x), writes(y), [&](auto) { ++followers; });
    pool.synchronize();
    EXPECT_EQ(followers.load(), 1);
  }
}

TYPED_TEST(LaunchThread,
           work_that_its_caller_launches_behind_a_failure_is_not_launched_and_throws) {
  Device<TypeParam> const device;
  StreamPool<TypeParam> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  StreamPool<TypeParam> callers(device, {.groups = 1, .launch_threads = LaunchThreads::none});
  auto const x = zeros<float>(device, {4});
  auto const y = zeros<float>(device, {4});
  auto const& follower = callers[0].compute().engine().slot();
  auto const before = follower.reserved.load();
  bool launched = false;
  auto const follow = [&] {
    StreamScope const scope(callers[0]);
    issue("follows", reads(x), writes(y), [&](auto) { launched = true; });
  };
  {
    StreamScope const scope(pool[0]);
    issue("fails", writes(x), [&](auto) {
      while (follower.reserved.load() == before) {
        std::this_thread::yield();
      }
      throw std::runtime_error("late");
    });
  }
  EXPECT_THROW(follow(), std::runtime_error);
  EXPECT_FALSE(launched);
  follow();
  EXPECT_TRUE(launched) << "the caller knows now";
}

TYPED_TEST(LaunchThread, every_caller_whose_work_is_not_launched_is_told) {
  constexpr int kCallers = 3;
  Device<TypeParam> const device;
  StreamPool<TypeParam> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  StreamPool<TypeParam> callers(device,
                                {.groups = kCallers, .launch_threads = LaunchThreads::none});
  auto const x = zeros<float>(device, {4});
  std::vector<std::uint64_t> before(kCallers);
  auto const reserved = [&](int caller) {
    return callers[caller].compute().engine().slot().reserved.load();
  };
  for (int i = 0; i < kCallers; ++i) {
    before[static_cast<std::size_t>(i)] = reserved(i);
  }
  {
    StreamScope const scope(pool[0]);
    issue("fails", writes(x), [&](auto) {
      for (int i = 0; i < kCallers; ++i) {
        while (reserved(i) == before[static_cast<std::size_t>(i)]) {
          std::this_thread::yield();
        }
      }
      throw std::runtime_error("late");
    });
  }
  std::atomic<int> told{0};
  std::atomic<int> launched{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kCallers; ++i) {
      threads.emplace_back([&, i] {
        StreamScope const scope(callers[i]);
        try {
          issue("follows", reads(x), [&](auto) { ++launched; });
        } catch (std::runtime_error const&) {
          ++told;
        }
      });
    }
  }
  EXPECT_EQ(told.load(), kCallers);
  EXPECT_EQ(launched.load(), 0);
}

TYPED_TEST(LaunchThread,
           a_failure_is_told_on_another_device_to_what_follows_it_and_to_nothing_else) {
  Device<TypeParam> const device;
  Device<TypeParam> const other({.tracker = device.tracker()});
  StreamPool<TypeParam> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  StreamPool<TypeParam> others(other, {.groups = 2, .launch_threads = LaunchThreads::none});
  auto const x = zeros<float>(device, {4});
  auto const y = zeros<float>(other, {4});
  auto const z = zeros<float>(other, {4});
  {
    StreamScope const scope(pool[0]);
    issue("fails", writes(x), [](auto) { throw std::runtime_error("late"); });
  }
  auto const issue_on = [&](int group, auto&& read, auto&& written) {
    StreamScope const scope(others[group]);
    issue("op", read, written, [](auto) {});
  };
  auto const unrelated = zeros<float>(other, {4});
  issue_on(1, reads(unrelated), writes(unrelated));
  EXPECT_THROW(issue_on(0, reads(y, x), writes(z)), std::runtime_error);
  issue_on(0, reads(y, x), writes(z));  // runs, because the failure was reported
  others.synchronize();
  EXPECT_THAT(to_host(z), Each(0.0F));
  EXPECT_THROW(pool.synchronize(), std::runtime_error) << "whoever has its device is told, too";
}

/// Destroys the device of the failed operation before any call has reported the failure.
TYPED_TEST(LaunchThread, a_failure_that_nobody_took_is_told_once_to_what_follows_it) {
  auto const tracker = std::make_shared<detail::DependencyTracker>(life_of<TypeParam>);
  Device<TypeParam> const other({.tracker = tracker});
  auto const x = zeros<float>(other, {4});
  {
    Device<TypeParam> const device({.tracker = tracker});
    StreamPool<TypeParam> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
    auto const y = zeros<float>(device, {4});
    StreamScope const scope(pool[0]);
    issue("fails", reads(x), writes(y), [](auto) { throw std::runtime_error("late"); });
  }
  auto const follow = [&] { issue("follows", writes(x), [](auto) {}); };
  EXPECT_THROW(follow(), std::runtime_error);
  EXPECT_NO_THROW(follow());
}

TYPED_TEST(LaunchThread, work_under_a_holder_behind_a_failure_is_not_held_for) {
  Device<TypeParam> const device;
  StreamPool<TypeParam> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  StreamPool<TypeParam> callers(device, {.groups = 1, .launch_threads = LaunchThreads::none});
  auto const x = zeros<float>(device, {4});
  {
    StreamScope const scope(pool[0]);
    issue("fails", writes(x), [](auto) { throw std::runtime_error("late"); });
  }
  TensorHolder<TypeParam> holder(callers[0].compute());
  EXPECT_THROW(holder.hold(x), std::runtime_error);
  EXPECT_NO_THROW(holder.hold(x)) << "the caller knows now";
}

TYPED_TEST(LaunchThread, a_failure_is_known_to_whoever_has_waited_for_the_operation) {
  constexpr int kRounds = 200;  // many rounds, since a race would be lost only now and then
  Device<TypeParam> const device;
  StreamPool<TypeParam> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  StreamScope const scope(pool[0]);
  Tensor<float, TypeParam> const x(device, {4});
  for (int round = 0; round < kRounds; ++round) {
    issue("fails", writes(x), [](auto) { throw std::runtime_error("late"); });
    ASSERT_THROW(pool[0].synchronize(), std::runtime_error) << "round " << round;
  }
}

}  // namespace
}  // namespace msstream::testing
