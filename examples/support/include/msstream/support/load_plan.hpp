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

namespace msstream::support {

/// Closed: each client asks, waits for the answer, and asks again. Open: queries arrive at random,
/// whether or not earlier ones have been answered, as a Poisson process. Lone: one query at a time,
/// measured as those of an open load are.
enum class LoadMode : std::uint8_t { closed, open, lone };

/// How a pool is asked.
struct LoadPlan {
  LoadMode mode = LoadMode::closed;
  /// Threads: closed, each with `in_flight` queries in flight; open, each with its part of the
  /// arrivals.
  int clients = 16;
  int in_flight = 1;  ///< closed only
  double rate = 0;    ///< queries a second of all clients together; open only
  /// Closed and lone: each client asks at least once, however late it begins.
  std::chrono::duration<double> length{0};
  std::int64_t iterations = 0;                ///< of each client; 0: as many as `length` allows
  std::chrono::duration<double> deadline{0};  ///< from when it is asked; 0: none
  std::uint64_t seed = 1;                     ///< of the arrivals

  /// Open: above 0, not `rate`, but so many times what a closed load of `peak_clients` reaches,
  /// which is measured before.
  double load_factor = 0;
  int peak_clients = 16;
  bool lone_too = false;  ///< measure lone queries before

  /// Such a closed load, for at most a few seconds.
  [[nodiscard]] LoadPlan of_peak() const {
    constexpr std::chrono::duration<double> kLength{3};
    return {.clients = peak_clients, .length = std::min(length, kLength)};
  }
  /// One query at a time, for at most a second, or a thousand of them.
  [[nodiscard]] LoadPlan of_lone() const {
    constexpr std::chrono::duration<double> kLength{1};
    constexpr std::int64_t kMost = 1000;
    return {.mode = LoadMode::lone,
            .clients = 1,
            .length = std::min(length, kLength),
            .iterations = std::min(iterations, kMost)};
  }
  /// What comes before all that is measured.
  [[nodiscard]] LoadPlan of_warm_up(std::chrono::duration<double> warm_up) const {
    auto plan = load_factor > 0 ? of_peak() : *this;
    plan.iterations = 0;
    plan.length = warm_up;
    plan.seed = seed + 1;
    return plan;
  }
};

/// What a model says to a query, bit for bit: in each bucket that it may run in, since a product
/// may add up in another order for another number of rows.
using LoneAnswers = std::vector<std::vector<float>>;

/// A query that is asked again and again. The values that it names are its maker's.
struct LoadQuery {
  serve::Query query;
  /// Of model version v: expected[(v - 1) % size]; none: it is not checked.
  std::vector<LoneAnswers> expected = {};

  /// Whether that is, bit for bit, what the version of the model says; some of `expected` is there.
  [[nodiscard]] bool is_answer(std::uint64_t version, std::span<float const> values) const {
    return std::ranges::any_of(expected[(version - 1) % expected.size()], [&](auto const& lone) {
      return lone.size() == values.size() &&
             std::memcmp(lone.data(), values.data(), values.size_bytes()) == 0;
    });
  }
};

/// What a query alone takes of the device; see query_cost().
struct QueryCost {
  std::size_t operations = 0;
  double device_ns = 0;  ///< of all of them together
};

}  // namespace msstream::support
