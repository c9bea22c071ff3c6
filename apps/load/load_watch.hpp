// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/live_line.hpp"
#include "load/load_client.hpp"
#include "load/load_sample.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace msstream::load {

/// A function that returns the memory that is in use at the moment.
using LookAtMemory = std::function<MemoryTaken()>;

/// Observes a load test while it runs: shows its figures in a live line, and keeps samples of them.
/// For use by one thread; clients and pool are not stopped.
template <class Pool>
class LoadWatch {
 public:
  /// Prepares the observation. `places` is the number of queries that fit into launches. Without
  /// `memory` there are no samples. All arguments must outlive the watch.
  LoadWatch(Pool const& pool,
            std::deque<LoadClient<Pool>> const& clients,
            LoadPlan const& plan,
            std::int64_t places,
            LookAtMemory const& memory,
            LiveLine& line)
      : pool_(pool),
        clients_(clients),
        plan_(plan),
        places_(places),
        memory_(memory),
        line_(line),
        refused_before_(pool.counts().refused),
        shown_(begin_),
        sampled_(begin_) {}

  /// Returns the time at which look() should be called again.
  [[nodiscard]] serve::Clock::time_point next() const {
    return memory_ ? std::min(next_shown(), next_sampled()) : next_shown();
  }
  void look() {
    auto const now = serve::Clock::now();
    if (now >= next_shown()) {
      auto const sample = end_interval(shown_, now);
      line_.show({.queries_per_s = sample.queries_per_s,
                  .p50 = sample.latency.p50,
                  .p99 = sample.latency.p99,
                  .in_pool = sample.in_pool});
    }
    if (memory_ && now >= next_sampled()) {
      take_sample(now);
    }
  }
  /// Returns all samples. To be called after the load test. Adds a sample of the time after the
  /// last call of look(), if that time was long or has the first answers.
  [[nodiscard]] std::vector<LoadSample> finish() {
    auto const now = serve::Clock::now();
    bool const has_answers = std::any_of(samples_.begin(), samples_.end(), [](auto const& sample) {
      return sample.latency.count > 0;
    });
    if (memory_ && (!has_answers || now - sampled_.last() >= sample_period_now() / 2)) {
      take_sample(now);
    }
    return std::move(samples_);
  }

 private:
  [[nodiscard]] serve::Clock::time_point next_shown() const {
    return shown_.last() + line_.period();
  }
  [[nodiscard]] serve::Clock::time_point next_sampled() const {
    return sampled_.last() + sample_period_now();
  }
  [[nodiscard]] serve::Clock::duration sample_period_now() const {
    return std::chrono::duration_cast<serve::Clock::duration>(
        sample_period(plan_, sampled_.last() - begin_));
  }

  [[nodiscard]] LoadSample end_interval(LoadIntervals& intervals, serve::Clock::time_point now) {
    LatencyCounts latencies;
    for (auto const& client : clients_) {
      client.measures().recent.add_to(latencies);
    }
    auto const counts = pool_.counts();
    auto sample = intervals.next(now, std::move(latencies), counts.refused - refused_before_);
    // The counts are read one after the other while they change, so their difference may be
    // negative.
    sample.in_pool =
        std::max<std::int64_t>(static_cast<std::int64_t>(counts.admitted - counts.answered -
                                                         counts.expired - counts.failed),
                               0);
    sample.waiting = std::max<std::int64_t>(sample.in_pool - places_, 0);
    return sample;
  }
  void take_sample(serve::Clock::time_point now) {
    samples_.push_back(end_interval(sampled_, now));
    samples_.back().memory = memory_();
  }

  Pool const& pool_;
  std::deque<LoadClient<Pool>> const& clients_;
  LoadPlan const& plan_;
  std::int64_t places_;
  LookAtMemory const& memory_;
  LiveLine& line_;
  std::uint64_t refused_before_;
  serve::Clock::time_point begin_ = serve::Clock::now();
  LoadIntervals shown_;
  LoadIntervals sampled_;
  std::vector<LoadSample> samples_;
};

}  // namespace msstream::load
