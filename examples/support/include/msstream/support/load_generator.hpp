// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/inference_pool.hpp>
#include <msstream/support/counter_random.hpp>
#include <msstream/support/live_line.hpp>
#include <msstream/support/load_measures.hpp>
#include <msstream/support/load_watch.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::support {

/// Asks a pool as planned, once, and measures.
///
/// The queries are there beforehand, each client has counters of its own, and in an open load the
/// latency counts from the time at which a query was to arrive, however late its client was, so
/// that a pool that makes its clients wait cannot hide it.
template <class Pool>
class LoadGenerator {
 public:
  /// With `memory` the result has samples. All that is named outlives the generator.
  LoadGenerator(Pool& pool,
                std::vector<LoadQuery> const& queries,
                LoadPlan const& plan,
                LookAtMemory memory = {})
      : pool_(pool),
        queries_(queries),
        plan_(plan),
        memory_(std::move(memory)),
        before_(pool.counts()),
        measures_(static_cast<std::size_t>(plan.clients)) {}

  /// Blocks until every query has its outcome. Throws what a query failed with, if one did.
  [[nodiscard]] LoadResult run(LiveLine& line) {
    begin_ = Clock::now();
    end_ = begin_ + std::chrono::duration_cast<Clock::duration>(plan_.length);
    LoadWatch<Pool> watch(pool_, measures_, plan_, places(), memory_, line);
    auto clients = start_clients();
    try {
      await_clients(watch);
    } catch (...) {
      fail(std::current_exception());
    }
    for (auto& client : clients) {
      client.join();
    }
    await_outcomes();
    auto result = summary();
    result.samples = watch.finish();
    if (failure_ != nullptr) {
      std::rethrow_exception(failure_);
    }
    return result;
  }

 private:
  using Clock = serve::Clock;

  /// As many as the system has threads for; with too few, those end soon.
  [[nodiscard]] std::vector<std::thread> start_clients() {
    std::vector<std::thread> clients;
    clients.reserve(measures_.size());
    try {
      for (std::size_t i = 0; i < measures_.size(); ++i) {
        begin_work();
        clients.emplace_back([this, i] { work(i); });
      }
    } catch (...) {
      fail(std::current_exception());
      end_work();
    }
    return clients;
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
  void work(std::size_t client) noexcept {
    try {
      switch (plan_.mode) {
        case LoadMode::closed:
          ask_and_wait(client);
          break;
        case LoadMode::open:
          ask_in_time(client);
          break;
        case LoadMode::lone:
          ask_alone(client);
          break;
      }
    } catch (...) {
      fail(std::current_exception());
    }
    end_work();
  }
  [[nodiscard]] LoadQuery const& query(std::size_t client, std::int64_t number) const noexcept {
    constexpr std::size_t kApart = 37;
    return queries_[(client * kApart + static_cast<std::size_t>(number)) % queries_.size()];
  }
  /// Whether it has failed for another reason than the load; then nothing more is asked.
  void note_error(std::exception_ptr const& error) noexcept {
    try {
      std::rethrow_exception(error);
    } catch (serve::Refused const& refused) {
      if (refused.reason() != serve::Refused::Reason::queue_full) {
        fail(error);
      }
    } catch (serve::DeadlineExceeded const&) {
      return;
    } catch (...) {
      fail(error);
    }
  }
  void fail(std::exception_ptr error) noexcept {
    std::lock_guard const guard(mutex_);
    failure_ = failure_ == nullptr ? std::move(error) : failure_;
    has_failed_.store(true);
  }
  /// Does something with the query, and its deadline if there is one.
  template <class Use>
  decltype(auto) with_deadline(LoadQuery const& asked, Clock::time_point from, Use&& use) const {
    if (plan_.deadline.count() == 0) {
      return use(asked.query);
    }
    auto query = asked.query;
    query.deadline = from + std::chrono::duration_cast<Clock::duration>(plan_.deadline);
    return use(query);
  }

  /// Whether a client that asks its `number`th query at that time does so within the load.
  [[nodiscard]] bool is_within(std::int64_t number, Clock::time_point at) const noexcept {
    return !has_failed_.load(std::memory_order_relaxed) &&
           (plan_.iterations > 0 ? number < plan_.iterations : at < end_);
  }

  void ask_and_wait(std::size_t client) {
    auto& measures = measures_[client];
    auto asked_at = Clock::now();
    for (std::int64_t n = 0; is_within(n, asked_at); ++n) {
      auto const& asked = query(client, n);
      auto answer = with_deadline(
          asked, asked_at, [&](serve::Query const& its) { return pool_.submit(its); });
      ++measures.asked;
      try {
        auto const answered = answer.get();
        auto const now = Clock::now();
        measures.note(asked, answered, now - asked_at);
        asked_at = now;
      } catch (...) {
        note_error(std::current_exception());
        std::this_thread::yield();
        asked_at = Clock::now();
      }
      measures.ended.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void ask_in_time(std::size_t client) {
    auto& measures = measures_[client];
    double const mean_s = static_cast<double>(plan_.clients) / plan_.rate;
    std::chrono::duration<double> since_begin{0};
    for (std::int64_t n = 0;; ++n) {
      auto const drawn = uniform_of(random_bits(plan_.seed, client, static_cast<std::uint64_t>(n)));
      since_begin += std::chrono::duration<double>(-mean_s * std::log(1 - drawn));
      auto const arrives = begin_ + std::chrono::duration_cast<Clock::duration>(since_begin);
      if (!is_within(n, arrives)) {
        return;
      }
      wait_until(arrives);
      measures.late.record(Clock::now() - arrives);
      ask(query(client, n), arrives, measures);
    }
  }
  void ask_alone(std::size_t client) {
    auto& measures = measures_[client];
    auto asked_at = Clock::now();
    for (std::int64_t n = 0; is_within(n, asked_at); ++n) {
      ask(query(client, n), asked_at, measures);
      while (measures.ended.load(std::memory_order_acquire) != measures.asked) {
        std::this_thread::yield();
      }
      asked_at = Clock::now();
    }
  }
  /// The latency counts from `arrives` until the outcome is there, whoever sleeps.
  void ask(LoadQuery const& asked, Clock::time_point arrives, ClientMeasures& measures) {
    with_deadline(asked, arrives, [&](serve::Query const& its) {
      pool_.submit(its, [this, &measures, &asked, arrives](serve::Outcome const& outcome) {
        if (outcome.has_answer()) {
          measures.note(asked, outcome.answer(), Clock::now() - arrives);
        } else {
          note_error(outcome.error());
        }
        measures.ended.fetch_add(1, std::memory_order_release);
      });
    });
    ++measures.asked;
  }
  /// To the microsecond, which no sleep is; what is due already does not wait.
  static void wait_until(Clock::time_point then) {
    constexpr auto kOversleep = std::chrono::microseconds(100);
    if (then - Clock::now() > 2 * kOversleep) {
      std::this_thread::sleep_until(then - kOversleep);
    }
    while (Clock::now() < then) {
      std::this_thread::yield();
    }
  }

  /// Queries that can be launched at a time.
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
  void await_outcomes() const {
    for (auto const& measures : measures_) {
      while (measures.ended.load(std::memory_order_acquire) != measures.asked) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  [[nodiscard]] serve::LatencySummary sum(serve::LatencyHistogram ClientMeasures::*of) const {
    auto const all = std::make_unique<serve::LatencyHistogram>();
    for (auto const& measures : measures_) {
      all->add(measures.*of);
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
    for (auto const& measures : measures_) {
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
  std::vector<ClientMeasures> measures_;
  Clock::time_point begin_ = {};
  Clock::time_point end_ = {};
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::condition_variable over_;
  int working_ = 0;
  std::exception_ptr failure_;
};

}  // namespace msstream::support
