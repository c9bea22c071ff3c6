// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <functional>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::doctor {

/// The operations of a load: how many before each wait for the device, and for how long in all.
struct LoadPlan {
  int groups = 1;
  int operations_of_batch = 64;
  std::chrono::milliseconds length{500};
};

/// How a load went. A batch is what is issued before a wait for the device.
struct LoadRate {
  double per_second = 0;  ///< operations
  double p50_us = 0;      ///< of the times of a batch, with its wait: the median
  double p99_us = 0;      ///< 99 of 100 batches take at most this
};

/// The length of a kernel of the second load, and the part of the multiprocessors that it takes.
inline constexpr std::chrono::microseconds kKernelOfLoad{20};
inline constexpr int kKernelsThatFill = 4;

/// Returns the value that `part` of the values do not exceed, such as 0.99; 0 if there are none.
[[nodiscard]] inline double quantile_of(std::vector<double> values, double part) {
  if (values.empty()) {
    return 0;
  }
  auto const rank = std::ceil(part * static_cast<double>(values.size()));
  auto const place = values.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// Makes a pool with groups whose operations the calling threads launch.
template <class R>
[[nodiscard]] StreamPool<R> pool_of_load(Device<R> const& device, int groups) {
  return StreamPool<R>(device,
                       {.groups = groups,
                        .launch_threads = LaunchThreads::none,
                        .libraries = StreamPoolOptions::LibrariesMade::when_needed});
}

/// Issues an operation and waits for its end.
template <class R, class Work>
void do_first_operation(Device<R> const& device, Work const& work) {
  auto const pool = pool_of_load(device, 1);
  StreamScope<R> const scope(pool[0]);
  Tensor<float, R> const tensor(device, {16});
  issue("doctor", writes(tensor), work);
  pool[0].synchronize();
}

/// Returns how many operations the groups of a device do, each issued to by a thread of its own.
/// Calls `begin` when all groups are warm, and starts when it returns true. Returns zeros if it
/// returns false.
template <class R, class Work>
[[nodiscard]] LoadRate operation_rate(Device<R> const& device,
                                      LoadPlan const& plan,
                                      Work const& work,
                                      std::function<bool()> const& begin) {
  using Clock = std::chrono::steady_clock;
  auto const groups = static_cast<std::size_t>(plan.groups);
  auto const pool = pool_of_load(device, plan.groups);
  std::latch warm(plan.groups);
  std::latch go(1);
  Clock::time_point end;  // set before `go`
  std::vector<std::exception_ptr> failures(groups);
  std::vector<std::vector<double>> us_of_group(groups);
  auto const run = [&](int group, bool& is_warm) {
    StreamScope<R> const scope(pool[group]);
    Tensor<float, R> const tensor(device, {16});
    auto const batch = [&] {
      for (int i = 0; i < plan.operations_of_batch; ++i) {
        issue("doctor", writes(tensor), work);
      }
      pool[group].synchronize();
    };
    batch();
    is_warm = true;
    warm.count_down();
    go.wait();
    auto& us = us_of_group[static_cast<std::size_t>(group)];
    for (auto from = Clock::now(); from < end;) {
      batch();
      auto const to = Clock::now();
      us.push_back(std::chrono::duration<double, std::micro>(to - from).count());
      from = to;
    }
  };
  std::vector<std::jthread> threads;
  threads.reserve(groups);
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
  for (int group = 0; group < plan.groups; ++group) {
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
  end = begun ? from + plan.length : from;
  release.now();
  threads.clear();  // joins
  for (auto const& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
  if (!begun) {
    return {};
  }
  auto const seconds = std::chrono::duration<double>(Clock::now() - from).count();
  std::vector<double> all;
  for (auto const& us : us_of_group) {
    all.insert(all.end(), us.begin(), us.end());
  }
  return {static_cast<double>(all.size()) * plan.operations_of_batch / seconds,
          quantile_of(all, 0.5),
          quantile_of(all, 0.99)};
}

}  // namespace msstream::doctor
