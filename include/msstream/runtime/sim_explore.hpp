// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>
#include <msstream/runtime/sim.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::sim {

/// The result of running a program in many orders. Schedules are in the format that schedule_from()
/// reads.
struct Exploration {
  struct Options {
    /// The number of random orders to run. 0: every order in which the program can run.
    std::size_t random_schedules = 0;
    std::uint64_t first_seed = 1;     ///< of the random orders, which have ascending seeds
    std::size_t most_runs = 100'000;  ///< the maximum number of runs if `random_schedules` is 0
    /// Whether to leave out orders that differ from others only in steps whose order cannot be
    /// observed. Set to false to check that no outcome is lost.
    bool reduce = true;
    /// The options of each simulation, except the schedule, which the explorer sets.
    Sim::Options runtime = {};
  };
  struct Outcome {
    std::string outcome;   ///< the program's result as text
    std::string schedule;  ///< the first schedule that led to the outcome
    std::size_t runs;      ///< how many had it
  };
  struct Failure {
    std::string what;      ///< the message of the exception, or that false was returned
    std::string schedule;  ///< of the run that failed
  };

  std::size_t schedules = 0;  ///< the number of different orders that were run
  std::size_t repeats = 0;    ///< the number of runs that turned out to be an order already seen
  bool complete = false;      ///< whether all orders were run
  std::vector<Outcome> outcomes;   ///< the different outcomes, that of the first run first
  std::optional<Failure> failure;  ///< the failure that ended the search, if any

  /// Returns whether every run passed and all runs had the same outcome.
  [[nodiscard]] bool agrees() const noexcept { return !failure && outcomes.size() <= 1; }
};

/// Returns the result as text, with the schedule that reproduces each outcome.
[[nodiscard]] std::string to_string(Exploration const& exploration);

namespace detail {

[[nodiscard]] Exploration explore(std::function<std::string(Sim::Options const&)> const& program,
                                  Exploration::Options const& options);

[[nodiscard]] std::string outcome_of_number(std::int64_t number);
[[nodiscard]] std::string outcome_of_number(std::uint64_t number);
[[nodiscard]] std::string outcome_of_number(float number);
[[nodiscard]] std::string outcome_of_number(double number);

/// Returns an element of a program's result, or the whole of it, as text.
template <class Value>
std::string outcome_of_value(Value const& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<Value, char>) {
    return std::string(1, value);
  } else if constexpr (std::is_floating_point_v<Value>) {
    return outcome_of_number(value);
  } else if constexpr (std::is_integral_v<Value>) {
    return outcome_of_number(
        static_cast<std::conditional_t<std::is_signed_v<Value>, std::int64_t, std::uint64_t>>(
            value));
  } else if constexpr (msstream::detail::Printed<Value>) {
    return std::string(msstream::detail::text_of(value));
  } else {
    return std::string(std::string_view(value));
  }
}

/// Returns the result of a program as text; different results give different texts. Throws
/// std::runtime_error if the result is false.
template <class Result>
std::string outcome_of(Result&& result) {
  using Plain = std::remove_cvref_t<Result>;
  if constexpr (std::is_same_v<Plain, bool>) {
    if (!result) {
      throw std::runtime_error("the program returned false");
    }
    return {};
  } else if constexpr (std::is_convertible_v<Result, std::string>) {
    return std::forward<Result>(result);
  } else if constexpr (std::ranges::range<Plain>) {
    std::string out;
    for (auto const& element : result) {
      out += (out.empty() ? "" : ", ") + outcome_of_value(element);
    }
    return out;
  } else {
    return outcome_of_value(result);
  }
}

}  // namespace detail

/// Runs `program(Sim::Options)` from its start repeatedly, each time in another order, until it has
/// run in every order, or in `random_schedules` random ones, or has failed.
///
/// The program makes one Sim, or Device<Sim>, with the options that it receives, and must depend on
/// nothing else that changes. It reports a wrong order by throwing or by returning false. It may
/// return a result (text, a number, or a range of them), by which orders with different outcomes
/// are distinguished. If MSSTREAM_SIM_SCHEDULE is set, only that schedule is tried.
///
/// "Every order" means every order of dependent steps. Two pieces of work are dependent if they use
/// the same bytes and one of them writes, according to the declared uses of their operation, or,
/// for copies and fills, to their own ranges. Work outside every operation depends on everything.
/// The host depends on work at a query that finds it complete or not, at declared uses of pinned
/// memory, at frees, and, after each call that waits or queries, on work that uses pinned memory
/// whose owner does not declare its uses. A program that repeats a query is not left waiting for
/// ever.
///
/// The search is depth-first and stores no states. It adds a branch where a run shows two steps
/// that could have come in the opposite order (Abdulla, Aronis, Jonsson, Sagonas: Optimal Dynamic
/// Partial Order Reduction, 2014, the source-set variant with sleep sets).
template <class Program>
Exploration explore(Program&& program, Exploration::Options const& options = {}) {
  return detail::explore(
      [&](Sim::Options const& runtime) -> std::string {
        if constexpr (std::is_void_v<std::invoke_result_t<Program&, Sim::Options const&>>) {
          program(runtime);
          return {};
        } else {
          return detail::outcome_of(program(runtime));
        }
      },
      options);
}

}  // namespace msstream::sim
