// SPDX-License-Identifier: Apache-2.0
// Tests that fork() waits for the library's threads to leave their calls of a driver.
#include "runtime/driver_calls.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace msstream::testing {
namespace {

using detail::DriverCalls;

/// Calls fork() while another thread is inside calls of a runtime. That thread ends its calls once
/// it has seen that fork() waits, or else after fork(). Returns whether the calls are over in the
/// child.
bool are_over_in_child(RuntimeLife life) {
  std::atomic<bool> is_inside{false};
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_forked{false};
  std::thread thread([&] {
    DriverCalls calls(life);
    DriverCalls::Inside const inside(calls);
    is_inside.store(true);
    is_inside.notify_all();
    while (!DriverCalls::is_forking() && !has_forked.load()) {
      std::this_thread::yield();
    }
    is_over.store(!has_forked.load());
  });
  is_inside.wait(false);
  auto const child = fork();
  if (child == 0) {
    _exit(is_over.load() ? 0 : 1);
  }
  has_forked.store(true);
  thread.join();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 0;
}

TEST(DriverCallsTest, fork_waits_for_calls_of_a_driver) {
  EXPECT_TRUE(are_over_in_child(RuntimeLife::driver));
}

TEST(DriverCallsTest, fork_does_not_wait_for_a_runtime_without_driver) {
  EXPECT_FALSE(are_over_in_child(RuntimeLife::process));
}

/// Calls fork() on a thread that is inside calls of a runtime, as the work of an operation may.
/// fork() does not wait for the thread itself, and the calls stay open in the parent and in the
/// child.
TEST(DriverCallsTest, fork_inside_calls) {
  std::thread([] {
    DriverCalls calls(RuntimeLife::driver);
    DriverCalls::Inside const inside(calls);
    auto const child = fork();
    if (child == 0) {
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }).join();
}

}  // namespace
}  // namespace msstream::testing
