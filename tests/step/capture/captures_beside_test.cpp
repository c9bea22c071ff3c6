// SPDX-License-Identifier: Apache-2.0
// Tests captures and replays on one thread while other threads upload, compute, allocate and free.
#include "step/capture/captured_fixture.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/arithmetic.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

/// A thread that uploads, computes and downloads until it is stopped. It counts its rounds, and
/// keeps the message of an exception or of a wrong value.
template <Runtime R>
class LoaderThread {
 public:
  LoaderThread(Device<R> const& device, int number)
      : thread_([this, &device, number] { work(device, number); }) {}
  LoaderThread(LoaderThread const&) = delete;
  LoaderThread& operator=(LoaderThread const&) = delete;
  ~LoaderThread() {
    if (thread_.joinable()) {
      stop();
    }
  }

  [[nodiscard]] std::int64_t rounds() const { return rounds_.load(); }
  [[nodiscard]] bool ended() const { return ended_.load(); }
  /// Stops the thread and returns its error message, which is empty if there is none.
  std::string stop() {
    stop_ = true;
    thread_.join();
    return error_;
  }

 private:
  void work(Device<R> const& device, int number) {
    try {
      for (int i = 0; !stop_; ++i) {
        auto const value = static_cast<float>(number + i % 3);
        // Every 64th batch may be larger than all before it, so that pinned memory is allocated and
        // released.
        auto const count = i % 64 == 0 ? std::int64_t{1} << (12 + i / 64 % 6)
                                       : std::int64_t{1000} + number + 16 * (i % 7);
        auto const batch =
            to_device(device, Floats(static_cast<std::size_t>(count), value), {count});
        if (to_host(ops::add(batch, batch)).back() != 2 * value) {
          throw std::runtime_error("a loader has read other values than it wrote");
        }
        ++rounds_;
      }
    } catch (std::exception const& error) {
      error_ = error.what();
    }
    ended_ = true;
  }

  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};
  std::atomic<std::int64_t> rounds_{0};
  std::string error_;
  std::thread thread_;
};

/// Captures `count` steps and replays each three times, while `go_on()` returns true before each
/// capture. Returns an error message, which is empty if there is none.
template <Runtime R, class GoOn>
std::string captures_and_replays(Device<R> const& device, std::int64_t count, GoOn&& go_on) {
  try {
    auto const in = to_device(device, Floats(4096, 1), {4096});
    for (std::int64_t i = 0; i < count && go_on(i); ++i) {
      std::optional<Tensor<float, R>> out;
      CapturedStep<R> step(device, [&] { out = ops::multiply(ops::add(in, in), in); });
      for (int k = 1; k < 4; ++k) {
        copy(in, to_device(device, Floats(4096, static_cast<float>(k)), {4096}));
        step.replay();
        if (to_host(*out)[100] != static_cast<float>(2 * k * k)) {
          return "a replay has computed other values than its input has";
        }
      }
    }
    return "";
  } catch (std::exception const& error) {
    return error.what();
  }
}

template <class R>
class CapturesBesideTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(CapturesBesideTest, PlainRuntimes, RuntimeNames);

/// Runs as many captures as the variable MSSTREAM_TEST_CAPTURES says. Above 40, the loader threads
/// run 200 rounds for each capture instead of 2, for a longer search for races.
TYPED_TEST(CapturesBesideTest, loaders_and_captures_do_not_disturb_each_other) {
  using R = TypeParam;
  auto const captures = env::integer("MSSTREAM_TEST_CAPTURES", 40, 1, 1'000'000);
  auto const rounds_each = captures > 40 ? 200 : 2;
  DeviceOptions<R> options;
  options.memory.pinned_keep_bytes = 0;
  Device<R> const device(options);
  std::vector<std::unique_ptr<LoaderThread<R>>> loaders;
  for (int i = 0; i < 2; ++i) {
    loaders.push_back(std::make_unique<LoaderThread<R>>(device, i));
  }
  auto const loaded = [&] { return loaders[0]->rounds() + loaders[1]->rounds(); };
  auto const loading = [&] { return !loaders[0]->ended() && !loaders[1]->ended(); };
  auto const error = captures_and_replays(device, captures, [&](std::int64_t done) {
    while (loaded() < rounds_each * done && loading()) {
      std::this_thread::yield();
    }
    return loading();
  });
  EXPECT_EQ(error, "");
  for (auto const& loader : loaders) {
    EXPECT_EQ(loader->stop(), "");
  }
  EXPECT_GE(loaded(), rounds_each * (captures - 1));
}

TYPED_TEST(CapturesBesideTest, captures_on_several_threads_do_not_disturb_each_other) {
  Device<TypeParam> const device;
  std::vector<std::string> errors(4, "did not run");
  std::vector<std::thread> threads;
  for (auto& error : errors) {
    threads.emplace_back([&device, &error] {
      error = captures_and_replays(device, 40, [](std::int64_t) { return true; });
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (auto const& error : errors) {
    EXPECT_EQ(error, "");
  }
}

}  // namespace
}  // namespace msstream::testing
