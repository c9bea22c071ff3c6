// SPDX-License-Identifier: Apache-2.0
// Tests that fork() waits until the library's threads are outside calls of the driver.
#include "runtime/driver_calls.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace msstream::testing {
namespace {

using detail::DriverCalls;

/// Called by fork() while DriverCalls holds threads up: handlers run in the reverse order of their
/// registration, and this one is registered before main().
std::function<void()> during_fork;
int const handler = pthread_atfork(
    [] {
      if (during_fork) {
        during_fork();
      }
    },
    nullptr,
    nullptr);

class DriverCallsTest : public ::testing::Test {
 protected:
  /// Threads of tests always see that fork() waits, however slow the machine is.
  void SetUp() override {
    ASSERT_EQ(handler, 0);
    DriverCalls::set_longest_wait(std::chrono::hours(1));
  }
  void TearDown() override {
    during_fork = nullptr;
    DriverCalls::set_longest_wait(std::chrono::seconds(1));
  }

  /// Calls fork(). Returns the value of the flag in the child.
  static bool value_in_child(std::atomic<bool> const& flag) {
    auto const child = fork();
    if (child == 0) {
      _exit(flag.load() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
  }

  /// Calls fork() while a thread is inside calls of a runtime with the given life. The calls end
  /// once the thread sees that fork() waits, or after fork(). Returns whether the calls are over in
  /// the child.
  static bool are_over_in_child(RuntimeLife life, bool ends_during_fork = true) {
    std::atomic<bool> is_inside{false};
    std::atomic<bool> is_over{false};
    std::atomic<bool> has_forked{false};
    std::thread thread([&] {
      DriverCalls calls(life);
      DriverCalls::Inside const inside(calls);
      is_inside.store(true);
      is_inside.notify_all();
      while (!(ends_during_fork && DriverCalls::is_forking()) && !has_forked.load()) {
        std::this_thread::yield();
      }
      is_over.store(!has_forked.load());
    });
    is_inside.wait(false);
    bool const is_over_in_child = value_in_child(is_over);
    has_forked.store(true);
    thread.join();
    return is_over_in_child;
  }
};

TEST_F(DriverCallsTest, fork_waits_for_calls_of_a_driver) {
  EXPECT_TRUE(are_over_in_child(RuntimeLife::driver));
}

TEST_F(DriverCallsTest, fork_does_not_wait_for_a_runtime_without_driver) {
  EXPECT_FALSE(are_over_in_child(RuntimeLife::process));
}

/// The call may wait for the thread that calls fork().
TEST_F(DriverCallsTest, fork_does_not_wait_forever) {
  DriverCalls::set_longest_wait(std::chrono::milliseconds(1));
  EXPECT_FALSE(are_over_in_child(RuntimeLife::driver, false));
}

TEST_F(DriverCallsTest, calls_begin_after_a_fork_in_progress) {
  std::atomic<bool> is_registered{false};
  std::atomic<bool> may_try{false};
  std::atomic<bool> tries{false};
  std::atomic<bool> is_inside{false};
  std::thread thread([&] {
    DriverCalls calls(RuntimeLife::driver);
    is_registered.store(true);
    is_registered.notify_all();
    may_try.wait(false);
    tries.store(true);
    DriverCalls::Inside const inside(calls);
    is_inside.store(true);
  });
  is_registered.wait(false);
  during_fork = [&] {
    may_try.store(true);
    may_try.notify_all();
    while (!tries.load()) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 1000 && !is_inside.load();
         ++i) {  // gives a thread that is not held up time
      std::this_thread::yield();
    }
  };
  EXPECT_FALSE(value_in_child(is_inside));
  thread.join();
  EXPECT_TRUE(is_inside.load());
}

/// fork() does not wait for the thread that calls it, whose work may be that of an operation. The
/// calls stay open afterwards, in the parent and in the child.
TEST_F(DriverCallsTest, fork_inside_calls) {
  std::thread([] {
    DriverCalls calls(RuntimeLife::driver);
    DriverCalls::Inside const inside(calls);
    std::atomic<bool> const flag{true};
    EXPECT_TRUE(value_in_child(flag));
  }).join();
}

}  // namespace
}  // namespace msstream::testing
