// SPDX-License-Identifier: Apache-2.0
#include "load/load_watch.hpp"

#include <msstream/report/progress_line.hpp>
#include <msstream/serve/answer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::load {
namespace {

using serve::Answer;
using serve::Clock;
using std::chrono::minutes;

/// A fake of the inference pool. It answers a query with a callback at once, and a query with a
/// future when the future is read.
class FakePool {
 public:
  std::future<Answer> submit(serve::Query const& /*query*/) {
    most_waiting_ = std::max(most_waiting_, ++waiting_);
    return std::async(std::launch::deferred, [this] {
      --waiting_;
      return Answer{};
    });
  }
  void submit(serve::Query const& /*query*/, serve::Callback const& callback) {
    callback(serve::Outcome(Answer{}));
  }
  [[nodiscard]] serve::PoolCounts counts() const { return {}; }
  [[nodiscard]] int most_waiting() const { return most_waiting_; }

 private:
  int waiting_ = 0;
  int most_waiting_ = 0;
};

/// One client of a load test, and the objects that it needs.
struct Asking {
  explicit Asking(LoadPlan with) : plan(std::move(with)) {
    clients.emplace_back(pool, queries, plan, 0, failure);
  }
  ClientMeasures const& ask_from(Clock::time_point begin) {
    clients.front().ask_all(begin);
    failure.rethrow();
    return clients.front().measures();
  }

  FakePool pool;
  std::vector<LoadQuery> queries{LoadQuery{}};
  LoadPlan plan;
  LoadFailure failure;
  std::deque<LoadClient<FakePool>> clients;
};

TEST(LoadClient, asks_once_when_it_begins_after_the_end_of_the_load) {
  for (auto const mode : {LoadMode::closed, LoadMode::lone}) {
    Asking asking({.mode = mode, .clients = 1, .length = std::chrono::seconds(1)});
    auto const& measures = asking.ask_from(Clock::now() - minutes(10));
    EXPECT_EQ(measures.asked, 1U);
    EXPECT_EQ(measures.latency.summary().count, 1U);
  }
}

TEST(LoadClient, has_as_many_queries_in_flight_as_planned) {
  Asking asking({.clients = 1, .in_flight = 5, .iterations = 20});
  EXPECT_EQ(asking.ask_from(Clock::now()).asked, 20U);
  EXPECT_EQ(asking.pool.most_waiting(), 5);
}

TEST(LoadClient, of_an_open_load_counts_latency_from_the_arrival) {
  constexpr std::chrono::seconds kLength{1};
  Asking asking({.mode = LoadMode::open, .clients = 1, .rate = 100, .length = kLength});
  auto const& measures = asking.ask_from(Clock::now() - minutes(10));
  auto const latency = measures.latency.summary();
  auto const late = measures.late.summary();
  EXPECT_EQ(latency.count, measures.asked);
  EXPECT_GT(latency.count, 40U);
  EXPECT_LT(latency.count, 160U);
  EXPECT_GT(late.mean, minutes(10) - kLength);
  EXPECT_GE(latency.mean, late.mean);
}

TEST(LoadWatch, has_a_sample_of_the_first_answers_however_soon_the_load_is_over) {
  Asking asking({.clients = 1, .iterations = 1});
  LookAtMemory const memory = [] { return MemoryTaken{}; };
  LiveLine line(report::ProgressLine::Style::of_stderr(true), "a load");
  LoadWatch<FakePool> watch(asking.pool, asking.clients, asking.plan, 1, memory, line);
  while (Clock::now() < watch.next()) {
    std::this_thread::yield();
  }
  watch.look();
  static_cast<void>(asking.ask_from(Clock::now()));
  auto const samples = watch.finish();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].latency.count, 0U);
  EXPECT_EQ(samples[1].latency.count, 1U);
}

}  // namespace
}  // namespace msstream::load
