// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace msstream::serve {

/// A histogram of durations, with sixteen buckets for each doubling, from 1 ns to 18 minutes;
/// longer durations go to the last bucket.
///
/// States: counts only grow. Ownership: the user's; nothing is allocated. Memory ordering: relaxed
/// throughout. Any thread may call record(); a summary taken at the same time covers part of the
/// recorded durations.
class LatencyHistogram {
 public:
  /// A summary of the durations in a histogram. The percentiles are at most a sixteenth too high,
  /// and never too low.
  struct Summary {
    std::uint64_t count = 0;           ///< durations that were recorded
    std::chrono::nanoseconds mean{0};  ///< exact; 0 if there are none
    std::chrono::nanoseconds p50{0};   ///< half of the durations are at most this long
    std::chrono::nanoseconds p95{0};   ///< 95% are at most this long
    std::chrono::nanoseconds p99{0};   ///< 99% are at most this long
    std::chrono::nanoseconds max{0};   ///< the longest duration, exact
  };

  /// Counts a duration; a negative one counts as 0.
  void record(std::chrono::nanoseconds duration) noexcept;
  /// Adds the counts of another histogram to the histogram.
  void add(LatencyHistogram const& other) noexcept;
  /// Returns the summary of the durations recorded so far.
  [[nodiscard]] Summary summary() const noexcept;

 private:
  static constexpr int kSubBits = 4;
  static constexpr std::uint64_t kSubBuckets = 1U << kSubBits;
  static constexpr int kMostBits = 40;
  static constexpr std::size_t kBuckets = (kMostBits - kSubBits + 1) * kSubBuckets;

  [[nodiscard]] static std::size_t bucket_of(std::uint64_t ns) noexcept;
  /// Returns the longest duration in ns that belongs to the bucket.
  [[nodiscard]] static std::uint64_t longest_in(std::size_t bucket) noexcept;
  void raise_max(std::uint64_t ns) noexcept;

  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
  std::atomic<std::uint64_t> total_ns_{0};
  std::atomic<std::uint64_t> max_ns_{0};
};

/// The counts of an InferencePool so far: queries by outcome, launches and captures. Once the pool
/// is drained, admitted = answered + expired + failed.
struct PoolCounts {
  std::uint64_t admitted = 0;   ///< queries that the pool accepted
  std::uint64_t answered = 0;   ///< queries that got an answer
  std::uint64_t refused = 0;    ///< queries that were never admitted
  std::uint64_t expired = 0;    ///< queries whose deadline passed while they waited
  std::uint64_t failed = 0;     ///< queries that were displaced, or whose model or device threw
  std::uint64_t displaced = 0;  ///< queries removed from the full queue for one of higher priority
  std::uint64_t queued = 0;     ///< admitted queries that had to wait for a slot or for others
  std::uint64_t launches = 0;   ///< batches of queries that were launched
  std::uint64_t moved = 0;      ///< launches that failed and were repeated on another replica
  std::uint64_t callbacks_threw = 0;  ///< callbacks that threw; the exceptions are dropped
  std::uint64_t captured_steps = 0;   ///< the captured steps of the current model
  std::uint64_t failed_captures = 0;  ///< of all models; these steps are issued anew each time
  int sound_replicas = 0;             ///< replicas that have not failed
  std::uint64_t version = 0;          ///< the number of the current model
  std::uint64_t poller_sleeps = 0;    ///< how often the poller has started to sleep
  std::uint64_t poller_sweeps = 0;    ///< how often the poller has looked at the launches in flight
};

/// The latencies of the queries that an InferencePool has answered.
struct PoolLatencies {
  LatencyHistogram::Summary queued = {};     ///< Answer::queued
  LatencyHistogram::Summary on_device = {};  ///< Answer::on_device; the sum of both is the latency
};

}  // namespace msstream::serve
