// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/measure/median.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <chrono>
#include <optional>
#include <vector>

namespace msstream::doctor {

/// Returns the median time in µs that the host needs for one of `calls` calls of `call`, over
/// batches. Calls `wait` after each batch, whose time does not count.
template <class Call, class Wait>
[[nodiscard]] double median_us_of_calls(int calls, Call const& call, Wait const& wait) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatches = 9;
  std::vector<double> us;
  for (int batch = 0; batch <= kBatches; ++batch) {
    auto const begin = Clock::now();
    for (int i = 0; i < calls; ++i) {
      call();
    }
    auto const taken = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    wait();
    if (batch > 0) {  // the first batch warms up
      us.push_back(taken / calls);
    }
  }
  return median_of(std::move(us));
}

/// The calls of a batch: few enough that the queue of a stream does not fill.
inline constexpr int kCallsOfBatch = 100;

/// Returns options of a pool with one group, whose operations the calling thread launches.
[[nodiscard]] inline StreamPoolOptions one_group() {
  StreamPoolOptions options;
  options.groups = 1;
  options.merge_streams = false;
  options.sm_partitions = 1;
  options.spared_sms = 0;
  options.launch_threads = LaunchThreads::none;
  options.libraries = StreamPoolOptions::LibrariesMade::when_needed;
  options.assignment = std::nullopt;
  return options;
}

/// Returns the time in µs that the host needs to issue an operation that reads a tensor and writes
/// another one, on one stream group. `work` is what the operation runs, such as a launch.
template <class R, class Work>
[[nodiscard]] double measure_issue_us(Device<R> const& device, Work const& work) {
  StreamPool<R> const pool(device, one_group());
  StreamScope<R> const scope(pool[0]);
  Tensor<float, R> const input(device, {16});
  Tensor<float, R> const output(device, {16});
  // Gives the input contents, so that no checking runtime reports a read of memory not written.
  issue("doctor_fill", writes(input), work);
  return median_us_of_calls(
      kCallsOfBatch,
      [&] { issue("doctor", reads(input), writes(output), work); },
      [&] { pool[0].synchronize(); });
}

/// The operations of the captured step that measure_replay_us() replays.
inline constexpr int kCapturedOperations = 32;

/// Returns the time in µs that the host needs for the replay of a captured step.
template <class R, class Work>
[[nodiscard]] double measure_replay_us(Device<R> const& device, Work const& work) {
  StreamPool<R> const pool(device, one_group());
  StreamScope<R> const scope(pool[0]);
  Tensor<float, R> const tensor(device, {16});
  CapturedStep<R> step(device, [&] {
    for (int i = 0; i < kCapturedOperations; ++i) {
      issue("doctor", writes(tensor), work);
    }
  });
  return median_us_of_calls(
      kCallsOfBatch / 4, [&] { step.replay(); }, [&] { pool[0].synchronize(); });
}

}  // namespace msstream::doctor
