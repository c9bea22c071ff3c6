// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/query.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace msstream::load {

/// The kind of a load test. Closed: each client submits a query, waits for the answer, and submits
/// the next one. Open: queries arrive at random, whether or not earlier ones have been answered, as
/// a Poisson process. Lone: one query at a time, measured like those of an open load.
enum class LoadMode : std::uint8_t { closed, open, lone };

/// The plan of a load test of a pool.
struct LoadPlan {
  LoadMode mode = LoadMode::closed;
  /// The number of client threads. In a closed load, each has `in_flight` queries in flight; in an
  /// open load, each has its part of the arrivals.
  int clients = 16;
  int in_flight = 1;  ///< queries in flight of each client; closed only
  double rate = 0;    ///< queries a second of all clients together; open only
  /// The length of the load test. In closed and lone loads, each client submits at least one query,
  /// however late it begins.
  std::chrono::duration<double> length{0};
  std::int64_t iterations = 0;  ///< queries of each client; 0: as many as `length` allows
  std::chrono::duration<double> deadline{0};  ///< of each query, from its submission; 0: none
  std::uint64_t seed = 1;                     ///< seed of the random times of arrival

  /// For open loads: if above 0, replaces `rate` by a multiple of the peak, which is the rate that
  /// a closed load of `peak_clients` reaches. The peak is measured before the test.
  double load_factor = 0;
  int peak_clients = 16;
  bool lone_too = false;  ///< measures lone queries before the load test

  /// Returns the plan of the closed load that measures the peak, for at most 3 seconds.
  [[nodiscard]] LoadPlan of_peak() const {
    constexpr std::chrono::duration<double> kLength{3};
    return {.clients = peak_clients, .length = std::min(length, kLength)};
  }
  /// Returns the plan of a load of one query at a time, for at most a second or a thousand queries.
  [[nodiscard]] LoadPlan of_lone() const {
    constexpr std::chrono::duration<double> kLength{1};
    constexpr std::int64_t kMost = 1000;
    return {.mode = LoadMode::lone,
            .clients = 1,
            .length = std::min(length, kLength),
            .iterations = std::min(iterations, kMost)};
  }
  /// Returns the plan of the short load that is recorded for a report on overlap.
  [[nodiscard]] LoadPlan of_overlap() const {
    constexpr std::chrono::duration<double> kLength{0.1};
    constexpr std::int64_t kMost = 10;
    auto plan = *this;
    plan.length = kLength;
    plan.iterations = iterations > 0 ? std::min(iterations, kMost) : kMost;
    return plan;
  }
  /// Returns the plan of the warm-up, the load that precedes all measurements.
  [[nodiscard]] LoadPlan of_warm_up(std::chrono::duration<double> warm_up) const {
    auto plan = load_factor > 0 ? of_peak() : *this;
    plan.iterations = 0;
    plan.length = warm_up;
    plan.seed = seed + 1;
    return plan;
  }
};

/// The values, bit for bit, with which a model may answer a query: one answer for each bucket
/// (batch size) that the query may run in, since a matrix product may add up in another order for
/// another number of rows.
using LoneAnswers = std::vector<std::vector<float>>;

/// A query that is submitted repeatedly. Its values belong to the code that made it.
struct LoadQuery {
  serve::Query query;
  /// The expected answers. Those of model version v are expected[(v - 1) % size]. If empty, answers
  /// are not checked.
  std::vector<LoneAnswers> expected = {};

  /// Returns whether `values` is, bit for bit, an answer of version `version` of the model.
  /// `expected` must not be empty.
  [[nodiscard]] bool is_answer(std::uint64_t version, std::span<float const> values) const {
    return std::ranges::any_of(expected[(version - 1) % expected.size()], [&](auto const& lone) {
      return lone.size() == values.size() &&
             std::memcmp(lone.data(), values.data(), values.size_bytes()) == 0;
    });
  }
};

/// The cost on the device of a query that runs alone; see query_cost().
struct QueryCost {
  std::size_t operations = 0;
  double device_ns = 0;  ///< sum of the times of all operations
};

}  // namespace msstream::load
