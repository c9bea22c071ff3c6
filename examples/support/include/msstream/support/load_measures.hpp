// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/answer.hpp>
#include <msstream/serve/latency_histogram.hpp>
#include <msstream/serve/pool_counts.hpp>
#include <msstream/support/interval_latency.hpp>
#include <msstream/support/load_plan.hpp>
#include <msstream/support/load_sample.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace msstream::support {

/// What one client has seen. Written by it, or by the poller for it; read by any thread.
struct alignas(64) ClientMeasures {
  serve::LatencyHistogram latency;
  LatencyCounter recent;  ///< the same
  serve::LatencyHistogram queued;
  serve::LatencyHistogram on_device;
  serve::LatencyHistogram late;         ///< how long after its time a query was asked; open only
  std::uint64_t asked = 0;              ///< read when the client is over
  std::atomic<std::uint64_t> ended{0};  ///< of those asked
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

/// How a load went.
struct LoadResult {
  double seconds = 0;  ///< until the last answer
  serve::LatencySummary latency = {};
  serve::LatencySummary queued = {};
  serve::LatencySummary on_device = {};
  serve::LatencySummary late = {};
  std::uint64_t asked = 0;        ///< as the clients count
  serve::PoolCounts counts = {};  ///< of this load alone
  std::uint64_t checked = 0;
  std::uint64_t mismatches = 0;
  std::vector<LoadSample> samples = {};

  [[nodiscard]] double queries_per_s() const noexcept {
    return static_cast<double>(latency.count) / seconds;
  }
  /// On average, by Little's law.
  [[nodiscard]] double in_flight() const noexcept { return together(latency); }
  [[nodiscard]] double on_device_together() const noexcept { return together(on_device); }

 private:
  [[nodiscard]] double together(serve::LatencySummary const& each) const noexcept {
    return queries_per_s() * std::chrono::duration<double>(each.mean).count();
  }
};

}  // namespace msstream::support
