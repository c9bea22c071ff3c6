// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/interval_latency.hpp"
#include "load/load_plan.hpp"
#include "load/load_sample.hpp"

#include <msstream/serve/answer.hpp>
#include <msstream/serve/pool_counts.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace msstream::load {

/// The measurements of one client of a load test. The client writes them, or the pool's polling
/// thread for it; any thread may read them.
struct alignas(64) ClientMeasures {
  serve::LatencyHistogram latency;
  LatencyCounter recent;  ///< latencies, to be read at the ends of intervals
  serve::LatencyHistogram queued;
  serve::LatencyHistogram on_device;
  serve::LatencyHistogram late;         ///< delay of queries after their arrival; open only
  std::uint64_t asked = 0;              ///< queries; read after the client has ended
  std::atomic<std::uint64_t> ended{0};  ///< queries with an outcome
  std::atomic<std::uint64_t> checked{0};
  std::atomic<std::uint64_t> mismatches{0};

  void note(LoadQuery const& query,
            serve::Answer const& answer,
            std::chrono::nanoseconds took) noexcept {
    latency.record(took);
    recent.record(took);
    queued.record(answer.queued);
    on_device.record(answer.on_device);
    if (query.expected.empty()) {
      return;
    }
    checked.fetch_add(1, std::memory_order_relaxed);
    if (!query.is_answer(answer.version, answer.values)) {
      mismatches.fetch_add(1, std::memory_order_relaxed);
    }
  }
};

/// The measurements of one load test.
struct LoadResult {
  double seconds = 0;  ///< duration of the test until its last answer
  serve::LatencyHistogram::Summary latency = {};
  serve::LatencyHistogram::Summary queued = {};
  serve::LatencyHistogram::Summary on_device = {};
  serve::LatencyHistogram::Summary late = {};
  std::uint64_t asked = 0;        ///< number of queries, as the clients count
  serve::PoolCounts counts = {};  ///< counts of the pool, of this test only
  std::uint64_t checked = 0;
  std::uint64_t mismatches = 0;
  std::vector<LoadSample> samples = {};

  [[nodiscard]] double queries_per_s() const noexcept {
    return static_cast<double>(latency.count) / seconds;
  }
  /// Returns the mean number of queries in flight, by Little's law.
  [[nodiscard]] double in_flight() const noexcept { return together(latency); }
  [[nodiscard]] double on_device_together() const noexcept { return together(on_device); }

 private:
  [[nodiscard]] double together(serve::LatencyHistogram::Summary const& each) const noexcept {
    return queries_per_s() * std::chrono::duration<double>(each.mean).count();
  }
};

}  // namespace msstream::load
