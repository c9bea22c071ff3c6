// SPDX-License-Identifier: Apache-2.0
// Tests how a process ends when static objects hold devices, tensors and work in flight, and what a
// child of fork() may do with them. Each case ends a child process of its own.
#include "memory/runtimes.hpp"

#include <msstream/msstream.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef __SANITIZE_THREAD__
/// Turns off ThreadSanitizer's reports of leaked threads: threads of streams may live until the
/// process ends.
extern "C" char const* __tsan_default_options() {
  return "report_thread_leaks=0";
}
#endif

namespace msstream::testing {
namespace {

/// Ends the process after 120 seconds, in case it hangs.
void limit_time() {
  alarm(120);
}

/// Calls the function in a child process that has created nothing yet, and expects that the
/// function ends the child with status 0.
template <class F>
void expect_good_end(F&& function) {
  EXPECT_EXIT((limit_time(), function()), ::testing::ExitedWithCode(0), "");
}

/// The static objects of a test. They are destroyed in the reverse order of their declaration.
template <class R>
struct Statics {
  static inline std::optional<Tensor<float, R>> early;
  static inline std::optional<Device<R>> device;
  static inline std::optional<StreamPool<R>> pool;
  static inline std::optional<Tensor<float, R>> late;
  /// Returns a thread-local tensor. It is a variable of a function, because g++ 12 defines the
  /// guard of a static thread-local member twice.
  static std::optional<Tensor<float, R>>& of_thread() {
    thread_local std::optional<Tensor<float, R>> tensor;
    return tensor;
  }

  static void start(LaunchThreads launch_threads = LaunchThreads::shared) {
    device.emplace();
    pool.emplace(*device, StreamPoolOptions{.groups = 4, .launch_threads = launch_threads});
    early = zeros<float>(*device, {1 << 18});
    late = zeros<float>(*device, {100});
    of_thread() = zeros<float>(*device, {1024});
    work();
  }
  static void work() {
    for (int i = 0; i < 100; ++i) {
      StreamScope const scope((*pool)[i % 4]);
      static_cast<void>(ops::sum(*early));
    }
  }
};

template <class R>
class ProcessEnd : public RuntimeTest<R> {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child has created nothing yet
    RuntimeTest<R>::SetUp();
  }
};
TYPED_TEST_SUITE(ProcessEnd, Runtimes, RuntimeNames);

TYPED_TEST(ProcessEnd, exit_with_work_in_flight_in_static_objects) {
  for (auto const threads :
       {LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group}) {
    expect_good_end([&] {
      Statics<TypeParam>::start(threads);
      std::exit(0);
    });
  }
}

TYPED_TEST(ProcessEnd, exit_on_another_thread_and_inside_a_scope) {
  expect_good_end([&] {
    Statics<TypeParam>::start();
    std::thread([] {
      using Here = Statics<TypeParam>;
      StreamScope const scope((*Here::pool)[1]);
      Here::of_thread() = zeros<float>(*Here::device, {8});
      std::exit(0);
    }).join();
  });
}

TYPED_TEST(ProcessEnd, exit_inside_the_work_of_an_operation) {
  for (auto const threads : {LaunchThreads::none, LaunchThreads::shared}) {
    expect_good_end([&] {
      using Here = Statics<TypeParam>;
      Here::start(threads);
      {
        StreamScope const scope((*Here::pool)[1]);
        issue("ends the process", writes(*Here::late), [](auto) { std::exit(0); });
      }
      pause();
    });
  }
}

TYPED_TEST(ProcessEnd, exit_while_other_threads_go_on) {
  expect_good_end([&] {
    using R = TypeParam;
    Device<R> const device;
    std::atomic<int> rounds{0};
    std::vector<std::thread> loaders;
    for (int i = 0; i < 2; ++i) {
      loaders.emplace_back([device, &rounds] {
        while (true) {
          static_cast<void>(to_host(zeros<float>(device, {1000})));
          ++rounds;
          rounds.notify_all();
        }
      });
    }
    rounds.wait(0);
    Statics<R>::start();
    std::exit(0);
  });
}

TYPED_TEST(ProcessEnd, a_process_that_skips_its_destructors) {
  using Here = Statics<TypeParam>;
  EXPECT_EXIT((limit_time(), Here::start(), _exit(0)), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT((limit_time(), Here::start(), std::quick_exit(0)), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      (limit_time(), Here::start(), std::terminate()), ::testing::KilledBySignal(SIGABRT), "");
}

TYPED_TEST(ProcessEnd, a_failure_that_no_call_has_waited_for_is_logged) {
  auto const fail = [] {
    using Here = Statics<TypeParam>;
    Here::start();
    {
      StreamScope const scope((*Here::pool)[1]);
      issue("fails", reads(*Here::early), [](auto) { throw std::runtime_error("no such row"); });
    }
    std::exit(0);
  };
  EXPECT_EXIT(fail(),
              ::testing::ExitedWithCode(0),
              "given to a launch thread failed.*no call has waited for it: no such row");
}

TEST(ProcessEndOfHost, exit_inside_work_that_runs_on_a_stream) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_good_end([] {
    using Here = Statics<Host>;
    Here::start();
    issue("ends the process", reads(*Here::early), [](HostStream stream) {
      stream.run([] { std::exit(0); });
    });
    pause();
  });
}

#ifndef __SANITIZE_ADDRESS__  // the allocator may be locked by a thread of the parent at fork()

/// Returns the status of a child of fork() that calls `function` and then exit(0).
template <class F>
int status_of_child(F&& function) {
  auto const child = fork();
  if (child == 0) {
    limit_time();
    std::forward<F>(function)();
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

/// Returns the message of the std::logic_error that the call throws, or an empty string if it
/// throws none.
std::string error_of(std::function<void()> const& call) {
  try {
    call();
  } catch (std::logic_error const& error) {
    return error.what();
  }
  return {};
}

/// Returns how many of the calls do not throw the std::logic_error by which a child of fork() is
/// refused. The number is used as an exit status.
int not_refused(std::vector<std::function<void()>> const& calls) {
  int wrong = 0;
  for (auto const& call : calls) {
    wrong += error_of(call).find("child of fork()") == std::string::npos ? 1 : 0;
  }
  return wrong;
}

TYPED_TEST(ProcessEnd, a_child_of_fork_may_not_use_the_device_of_its_parent) {
  expect_good_end([&] {
    using Here = Statics<TypeParam>;
    Here::start();
    auto const& device = *Here::device;
    auto const event = (*Here::pool)[0].compute().record();
    PinnedArray<float, TypeParam> const pinned(device, 10);
    auto const wrong = status_of_child([&] {
      _exit(not_refused({
          [&] { static_cast<void>(to_host(*Here::early)); },
          [&] { static_cast<void>(zeros<float>(device, {4})); },
          [&] { static_cast<void>(ops::sum(*Here::early)); },
          [&] { fill_bytes(*Here::late, 1); },
          [&] { Here::early->freeze(); },
          [&] { (*Here::pool)[0].synchronize(); },
          [&] { Here::pool->synchronize(); },
          [&] { (*Here::pool)[0].compute().synchronize(); },
          [&] { event.synchronize(); },
          [&] { static_cast<void>(event.query()); },
          [&] { pinned.wait(); },
          [&] { static_cast<void>(device.memory_statistics()); },
          [&] { static_cast<void>(device.memory_snapshot()); },
          [&] { StreamPool<TypeParam> const second(device, {.groups = 2}); },
      }));
    });
    auto const works_on = to_host(*Here::early).size() == (1U << 18U);
    std::exit(wrong == 0 && works_on ? 0 : 1);
  });
}

TYPED_TEST(ProcessEnd, a_child_of_fork_ends_by_exit) {
  expect_good_end([&] {
    using Here = Statics<TypeParam>;
    Here::start();
    // Copies handles of tensors and devices to the heap before fork(), and to the stack of the
    // child.
    auto const tensor = std::make_unique<Tensor<float, TypeParam>>(*Here::early);
    auto const status = status_of_child([&] {
      auto const mine = *Here::device;
      auto const rows = Here::early->rows(0, 10);
      Here::of_thread().reset();
      Here::pool.reset();
    });
    std::exit(status == 0 ? 0 : 1);
  });
}

/// Calls fork() while another thread of the parent holds the locks of a stream. In the child the
/// locks are never released, and the child must end nevertheless.
TYPED_TEST(ProcessEnd, a_child_of_fork_ends_while_a_thread_of_the_parent_is_in_a_call) {
  expect_good_end([&] {
    using Here = Statics<TypeParam>;
    Here::start(LaunchThreads::none);
    std::atomic<bool> is_inside{false};
    std::atomic<bool> may_go_on{false};
    std::thread other([&] {
      StreamScope const scope((*Here::pool)[1]);
      issue("is launched", writes(*Here::late), [&](auto) {
        is_inside.store(true);
        is_inside.notify_all();
        may_go_on.wait(false);
      });
    });
    is_inside.wait(false);
    auto const status = status_of_child([&] {
      if (not_refused({[&] { static_cast<void>(to_host(*Here::late)); },
                       [&] { (*Here::pool)[1].synchronize(); }}) != 0) {
        _exit(3);
      }
    });
    may_go_on.store(true);
    may_go_on.notify_all();
    other.join();
    std::exit(status == 0 ? 0 : 1);
  });
}

template <class R>
int status_of_child_with_a_device() {
  return status_of_child([] {
    try {
      Device<R> const device;
      if (to_host(zeros<float>(device, {3})) != std::vector<float>(3)) {
        _exit(3);
      }
    } catch (std::logic_error const& error) {
      _exit(std::string(error.what()).find("child of fork()") != std::string::npos ? 4 : 5);
    }
  });
}

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer lets no child of fork() create threads
TEST(ProcessEndOfHost, a_child_of_fork_may_make_a_device) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  expect_good_end([&] {
    Statics<Host>::start();
    std::exit(status_of_child_with_a_device<Host>() == 0 ? 0 : 1);
  });
}
#endif

#if MSSTREAM_CUDA
TEST(ProcessEndOfCuda, a_child_of_fork_gets_an_error_for_a_device) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (Cuda::device_count() == 0) {
    GTEST_SKIP() << "no CUDA device";
  }
  expect_good_end([&] {
    Statics<Cuda>::start();
    auto const status = status_of_child_with_a_device<Cuda>();
    std::exit(WIFEXITED(status) && WEXITSTATUS(status) == 4 ? 0 : 1);
  });
}
#endif

#endif

}  // namespace
}  // namespace msstream::testing
