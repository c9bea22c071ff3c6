// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/live_line.hpp"
#include "load/load_client.hpp"
#include "load/load_watch.hpp"

#include <msstream/base/detail/start_thread.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::load {

/// Runs one load test on a pool, and measures it.
///
/// The queries exist beforehand, and each client has counters of its own. In an open load, the
/// latency counts from the time at which a query was to arrive, however late its client was, so
/// that a pool that makes its clients wait cannot hide it.
template <class Pool>
class LoadGenerator {
 public:
  /// Prepares the load test. If `memory` is given, the result has samples. All arguments must
  /// outlive the generator.
  LoadGenerator(Pool& pool,
                std::vector<LoadQuery> const& queries,
                LoadPlan const& plan,
                LookAtMemory memory = {})
      : pool_(pool),
        queries_(queries),
        plan_(plan),
        memory_(std::move(memory)),
        before_(pool.counts()) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(plan.clients); ++i) {
      clients_.emplace_back(pool, queries, plan, i, failure_);
    }
  }

  /// Runs the load test, and blocks until every query has its outcome. Throws the first error of a
  /// query, if there is one.
  [[nodiscard]] LoadResult run(LiveLine& line) {
    begin_ = Clock::now();
    LoadWatch<Pool> watch(pool_, clients_, plan_, places(), memory_, line);
    auto threads = start_clients();
    try {
      await_clients(watch);
    } catch (...) {
      failure_.note(std::current_exception());
    }
    for (auto& thread : threads) {
      thread.join();
    }
    for (auto const& client : clients_) {
      client.await_outcomes();
    }
    auto result = summary();
    result.samples = watch.finish();
    failure_.rethrow();
    return result;
  }

 private:
  using Clock = serve::Clock;

  /// Starts a thread for each client. If the system has too few threads, notes a failure, which
  /// soon ends the threads that have started.
  [[nodiscard]] std::vector<std::thread> start_clients() {
    std::vector<std::thread> threads;
    threads.reserve(clients_.size());
    try {
      for (auto& client : clients_) {
        begin_work();
        threads.push_back(detail::start_thread("a client", [this, &client] {
          client.ask_all(begin_);
          end_work();
        }));
      }
    } catch (...) {
      failure_.note(std::current_exception());
      end_work();
    }
    return threads;
  }
  void begin_work() noexcept {
    std::lock_guard const guard(mutex_);
    ++working_;
  }
  void end_work() noexcept {
    std::lock_guard const guard(mutex_);
    --working_;
    over_.notify_all();
  }
  /// Returns the number of queries that can be in launches at a time.
  [[nodiscard]] std::int64_t places() const {
    auto const& options = pool_.options();
    bool const together = options.max_batch_delay.count() > 0;
    return std::int64_t{options.replicas} * options.depth *
           (together ? options.buckets.back() / queries_.front().query.rows : 1);
  }
  void await_clients(LoadWatch<Pool>& watch) {
    std::unique_lock lock(mutex_);
    while (!over_.wait_until(lock, watch.next(), [&] { return working_ == 0; })) {
      lock.unlock();
      watch.look();
      lock.lock();
    }
  }

  [[nodiscard]] serve::LatencyHistogram::Summary sum(
      serve::LatencyHistogram ClientMeasures::*of) const {
    auto const all = std::make_unique<serve::LatencyHistogram>();
    for (auto const& client : clients_) {
      all->add(client.measures().*of);
    }
    return all->summary();
  }
  [[nodiscard]] LoadResult summary() const {
    LoadResult result{.seconds = std::chrono::duration<double>(Clock::now() - begin_).count(),
                      .latency = sum(&ClientMeasures::latency),
                      .queued = sum(&ClientMeasures::queued),
                      .on_device = sum(&ClientMeasures::on_device),
                      .late = sum(&ClientMeasures::late),
                      .counts = pool_.counts()};
    auto& counts = result.counts;
    counts.admitted -= before_.admitted;
    counts.answered -= before_.answered;
    counts.refused -= before_.refused;
    counts.expired -= before_.expired;
    counts.failed -= before_.failed;
    counts.queued -= before_.queued;
    counts.launches -= before_.launches;
    for (auto const& client : clients_) {
      auto const& measures = client.measures();
      result.asked += measures.asked;
      result.checked += measures.checked.load();
      result.mismatches += measures.mismatches.load();
    }
    return result;
  }

  Pool& pool_;
  std::vector<LoadQuery> const& queries_;
  LoadPlan const& plan_;
  LookAtMemory memory_;
  serve::PoolCounts before_;
  LoadFailure failure_;
  std::deque<LoadClient<Pool>> clients_;
  Clock::time_point begin_ = {};
  std::mutex mutex_;
  std::condition_variable over_;
  int working_ = 0;
};

}  // namespace msstream::load
