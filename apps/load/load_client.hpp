// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/counter_random.hpp"
#include "load/load_failure.hpp"
#include "load/load_measures.hpp"

#include <msstream/serve/answer.hpp>
#include <msstream/serve/query.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::load {

/// A client of a load test that submits queries to a pool, with measures of its own. For use by one
/// thread; in an open load, the pool's polling thread notes the outcomes. The client must outlive
/// the outcomes: see await_outcomes().
template <class Pool>
class LoadClient {
 public:
  /// Prepares client number `number`, from 0. All arguments must outlive the client.
  LoadClient(Pool& pool,
             std::vector<LoadQuery> const& queries,
             LoadPlan const& plan,
             std::size_t number,
             LoadFailure& failure)
      : pool_(pool), queries_(queries), plan_(plan), client_(number), failure_(failure) {}
  LoadClient(LoadClient const&) = delete;
  LoadClient& operator=(LoadClient const&) = delete;

  /// Submits queries until the load test, which begins at `begin`, is over. In an open load,
  /// outcomes may come after this function returns.
  void ask_all(serve::Clock::time_point begin) noexcept {
    begin_ = begin;
    end_ = begin + std::chrono::duration_cast<Clock::duration>(plan_.length);
    try {
      switch (plan_.mode) {
        case LoadMode::closed:
          ask_and_wait();
          break;
        case LoadMode::open:
          ask_in_time();
          break;
        case LoadMode::lone:
          ask_alone();
          break;
      }
    } catch (...) {
      failure_.note(std::current_exception());
    }
  }
  /// Blocks until all submitted queries have their outcomes. To be called after ask_all() has
  /// returned.
  void await_outcomes() const {
    while (measures_.ended.load(std::memory_order_acquire) != measures_.asked) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  [[nodiscard]] ClientMeasures const& measures() const noexcept { return measures_; }

 private:
  using Clock = serve::Clock;

  [[nodiscard]] LoadQuery const& query(std::int64_t number) const noexcept {
    constexpr std::size_t kApart = 37;
    return queries_[(client_ * kApart + static_cast<std::size_t>(number)) % queries_.size()];
  }
  /// Calls `use` with the query. If the plan has a deadline, first sets the query's, counted from
  /// `from`.
  template <class Use>
  decltype(auto) with_deadline(LoadQuery const& asked, Clock::time_point from, Use&& use) const {
    if (plan_.deadline.count() == 0) {
      return use(asked.query);
    }
    auto query = asked.query;
    query.deadline = from + std::chrono::duration_cast<Clock::duration>(plan_.deadline);
    return use(query);
  }

  /// Returns whether query `number` may be submitted at time `at`: nothing has failed, and the
  /// test's number of queries or its length is not reached.
  [[nodiscard]] bool is_within(std::int64_t number, Clock::time_point at) const noexcept {
    return !failure_.is_there() && (plan_.iterations > 0 ? number < plan_.iterations : at < end_);
  }

  /// Returns whether the client submits query `number` at time `at`: the first one at any time
  /// unless the test has failed, all others while is_within(). A busy machine may start a client
  /// after the end of the test, and a test without an answer measures nothing.
  [[nodiscard]] bool asks_next(std::int64_t number, Clock::time_point at) const noexcept {
    return number == 0 ? !failure_.is_there() : is_within(number, at);
  }

  struct Pending {
    LoadQuery const* asked;
    Clock::time_point asked_at;
    std::future<serve::Answer> answer;
  };

  void ask_and_wait() {
    std::deque<Pending> pending;
    auto now = Clock::now();
    for (std::int64_t n = 0; asks_next(n, now); ++n) {
      auto const& asked = query(n);
      pending.push_back({&asked, now, with_deadline(asked, now, [&](serve::Query const& its) {
                           return pool_.submit(its);
                         })});
      ++measures_.asked;
      now = pending.size() == static_cast<std::size_t>(plan_.in_flight) ? take_oldest(pending)
                                                                        : Clock::now();
    }
    while (!pending.empty()) {
      take_oldest(pending);
    }
  }
  /// Waits for the answer of the oldest pending query, and returns the time of its arrival.
  Clock::time_point take_oldest(std::deque<Pending>& pending) {
    auto oldest = std::move(pending.front());
    pending.pop_front();
    Clock::time_point now;
    try {
      auto const answered = oldest.answer.get();
      now = Clock::now();
      measures_.note(*oldest.asked, answered, now - oldest.asked_at);
    } catch (...) {
      failure_.note_outcome(std::current_exception());
      std::this_thread::yield();
      now = Clock::now();
    }
    measures_.ended.fetch_add(1, std::memory_order_relaxed);
    return now;
  }

  void ask_in_time() {
    double const mean_s = static_cast<double>(plan_.clients) / plan_.rate;
    std::chrono::duration<double> since_begin{0};
    for (std::int64_t n = 0;; ++n) {
      auto const drawn = datasets::uniform_of(
          datasets::random_bits(plan_.seed, client_, static_cast<std::uint64_t>(n)));
      since_begin += std::chrono::duration<double>(-mean_s * std::log(1 - drawn));
      auto const arrives = begin_ + std::chrono::duration_cast<Clock::duration>(since_begin);
      if (!is_within(n, arrives)) {
        return;
      }
      wait_until(arrives);
      measures_.late.record(Clock::now() - arrives);
      ask(query(n), arrives);
    }
  }
  void ask_alone() {
    auto asked_at = Clock::now();
    for (std::int64_t n = 0; asks_next(n, asked_at); ++n) {
      ask(query(n), asked_at);
      while (measures_.ended.load(std::memory_order_acquire) != measures_.asked) {
        std::this_thread::yield();
      }
      asked_at = Clock::now();
    }
  }
  /// Submits a query. Its latency counts from `arrives` to its outcome, even if the client was
  /// late.
  void ask(LoadQuery const& asked, Clock::time_point arrives) {
    with_deadline(asked, arrives, [&](serve::Query const& its) {
      pool_.submit(its, [this, &asked, arrives](serve::Outcome const& outcome) {
        if (outcome.has_answer()) {
          measures_.note(asked, outcome.answer(), Clock::now() - arrives);
        } else {
          failure_.note_outcome(outcome.error());
        }
        measures_.ended.fetch_add(1, std::memory_order_release);
      });
    });
    ++measures_.asked;
  }
  /// Waits until a time to the microsecond, which a sleep cannot do. Returns at once if the time
  /// has passed.
  static void wait_until(Clock::time_point then) {
    constexpr auto kOversleep = std::chrono::microseconds(100);
    if (then - Clock::now() > 2 * kOversleep) {
      std::this_thread::sleep_until(then - kOversleep);
    }
    while (Clock::now() < then) {
      std::this_thread::yield();
    }
  }

  Pool& pool_;
  std::vector<LoadQuery> const& queries_;
  LoadPlan const& plan_;
  std::size_t client_;
  LoadFailure& failure_;
  Clock::time_point begin_ = {};
  Clock::time_point end_ = {};
  ClientMeasures measures_;
};

}  // namespace msstream::load
