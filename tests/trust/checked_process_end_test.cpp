// SPDX-License-Identifier: Apache-2.0
// Tests that a child of fork() ends by exit() although other threads of its parent use a checker,
// and static objects hold captured steps and memory under a TensorHolder.

// The allocator of a sanitizer may be locked by a thread of the parent at fork().
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

constexpr int kChildren = 40;
constexpr int kThreads = 4;
/// Ends a process that hangs.
constexpr unsigned kLimitSeconds = 120;

/// The static objects of a test.
template <class R>
struct Statics {
  static inline std::optional<Device<R>> device;
  static inline std::optional<StreamPool<R>> pool;
  static inline std::optional<Tensor<float, R>> input;
  static inline std::optional<Tensor<float, R>> held;
  static inline std::optional<CapturedStep<R>> step;
  static inline std::optional<TensorHolder<R>> holder;

  static void start() {
    device.emplace();
    pool.emplace(*device, StreamPoolOptions{.groups = kThreads});
    input = zeros<float>(*device, {64});
    held = zeros<float>(*device, {64});
    step.emplace(*device, [] { copy(*input, ops::scale(*input, 2.0F)); });
    step->replay();
    holder.emplace((*pool)[0].compute());
    holder->hold(*held);
  }
};

template <class R>
void end_children_beside_threads() {
  using Here = Statics<R>;
  alarm(kLimitSeconds);
  Here::start();
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i, &is_over] {
      StreamScope const scope((*Here::pool)[i]);
      while (!is_over.load()) {
        static_cast<void>(ops::sum(*Here::input));
      }
    });
  }
  int wrong = 0;
  for (int i = 0; i < kChildren; ++i) {
    auto const child = fork();
    if (child == 0) {
      alarm(kLimitSeconds);
      std::exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    wrong += status == 0 ? 0 : 1;
  }
  is_over.store(true);
  for (auto& thread : threads) {
    thread.join();
  }
  Here::holder->release();
  std::exit(wrong == 0 ? 0 : 1);
}

template <class R>
class CheckedProcessEnd : public ::testing::Test {};
using HostRuntimes = ::testing::Types<Host, Checked<Host>>;
TYPED_TEST_SUITE(CheckedProcessEnd, HostRuntimes);

TYPED_TEST(CheckedProcessEnd, a_child_of_fork_ends_beside_threads_that_issue) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_children_beside_threads<TypeParam>(), ::testing::ExitedWithCode(0), "");
}

/// A child of fork() has a copy of the checker that may be locked for ever. Its functions throw.
TEST(CheckedInAChild, the_checker_of_the_parent_is_refused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const ask = [] {
    Device<Checked<Host>> const device;
    auto const checker = device.runtime().checker();
    auto const child = fork();
    if (child == 0) {
      try {
        static_cast<void>(checker->count());
        _exit(1);
      } catch (std::logic_error const&) {
        _exit(0);
      }
    }
    int status = -1;
    waitpid(child, &status, 0);
    std::exit(status == 0 && checker->count() == 0 ? 0 : 1);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace msstream::testing

#endif
