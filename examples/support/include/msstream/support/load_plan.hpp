// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/query.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace msstream::support {

/// Closed: each client asks, waits for the answer, and asks again. Open: queries arrive at random,
/// whether or not earlier ones have been answered, as a Poisson process.
enum class LoadMode : std::uint8_t { closed, open };

/// How a pool is asked.
struct LoadPlan {
  LoadMode mode = LoadMode::closed;
  /// Threads: closed, each with a query in flight; open, each with its part of the arrivals.
  int clients = 16;
  double rate = 0;  ///< queries a second of all clients together; open only
  std::chrono::duration<double> length{0};
  std::int64_t iterations = 0;                ///< of each client; 0: as many as `length` allows
  std::chrono::duration<double> deadline{0};  ///< from when it is asked; 0: none
  std::uint64_t seed = 1;                     ///< of the arrivals
};

/// What a model says to a query, bit for bit: in each bucket that it may run in, since a product
/// may add up in another order for another number of rows.
using LoneAnswers = std::vector<std::vector<float>>;

/// A query that is asked again and again. The values that it names are its maker's.
struct LoadQuery {
  serve::Query query;
  /// Of model version v: expected[(v - 1) % size]; none: it is not checked.
  std::vector<LoneAnswers> expected = {};
};

}  // namespace msstream::support
