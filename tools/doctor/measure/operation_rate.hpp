// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

namespace msstream::doctor {

/// Returns how many operations a second `groups` groups of a device do, each issued to by a thread
/// of its own, in `length`. Calls `begin` when all groups are warm, and starts when it returns
/// true. Returns 0 if it returns false.
template <class R, class Work>
[[nodiscard]] double operation_rate(Device<R> const& device,
                                    int groups,
                                    std::chrono::milliseconds length,
                                    Work const& work,
                                    std::function<bool()> const& begin) {
  using Clock = std::chrono::steady_clock;
  constexpr int kOfBatch = 64;
  StreamPool<R> const pool(device,
                           {.groups = groups,
                            .launch_threads = LaunchThreads::none,
                            .libraries = StreamPoolOptions::LibrariesMade::when_needed});
  std::atomic<std::uint64_t> done{0};
  std::latch warm(groups);
  std::latch go(1);
  Clock::time_point end;  // set before `go`
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(groups));
  auto const run = [&](int group, bool& is_warm) {
    StreamScope<R> const scope(pool[group]);
    Tensor<float, R> const tensor(device, {16});
    auto const batch = [&] {
      for (int i = 0; i < kOfBatch; ++i) {
        issue("doctor", writes(tensor), work);
      }
      pool[group].synchronize();
    };
    batch();
    is_warm = true;
    warm.count_down();
    go.wait();
    for (; Clock::now() < end; done += kOfBatch) {
      batch();
    }
  };
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(groups));
  // Lets the threads go before they are joined, also if something below throws. `end` is then in
  // the past.
  struct Release {
    std::latch& go;
    bool is_done = false;
    void now() {
      if (!is_done) {
        is_done = true;
        go.count_down();
      }
    }
    ~Release() { now(); }
  } release{go};
  for (int group = 0; group < groups; ++group) {
    threads.emplace_back([&, group] {
      bool is_warm = false;
      try {
        run(group, is_warm);
      } catch (...) {
        failures[static_cast<std::size_t>(group)] = std::current_exception();
        if (!is_warm) {
          warm.count_down();  // nobody waits for this group
        }
      }
    });
  }
  warm.wait();
  bool const begun = begin();
  auto const from = Clock::now();
  end = begun ? from + length : from;
  release.now();
  threads.clear();  // joins
  for (auto const& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
  auto const seconds = std::chrono::duration<double>(Clock::now() - from).count();
  return begun ? static_cast<double>(done.load()) / seconds : 0;
}

}  // namespace msstream::doctor
