// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>
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

struct ExploreOptions {
  /// 0: every order in which the program can run; else that many random ones.
  std::size_t random_schedules = 0;
  std::uint64_t first_seed = 1;
  std::size_t most_runs = 100'000;  ///< of the program, when it is to be every order
  /// Leave out orders that differ only in what cannot be told apart. Off to check that nothing is
  /// lost by it.
  bool reduce = true;
  /// Of each simulation; the explorer sets the schedule.
  SimOptions runtime = {};
};

/// What came of running a program in many orders. A schedule is written as schedule_from() reads
/// it.
struct Exploration {
  struct Outcome {
    std::string outcome;
    std::string schedule;  ///< the first that led to it
    std::size_t runs;
  };
  struct Failure {
    std::string what;
    std::string schedule;
  };

  std::size_t schedules = 0;  ///< orders that were run and differ
  std::size_t repeats = 0;    ///< runs that turned out to be an order already seen
  bool complete = false;      ///< whether that is all there is
  std::vector<Outcome> outcomes;
  std::optional<Failure> failure;  ///< ended the search

  /// Whether every run passed and all came to the same outcome.
  [[nodiscard]] bool agrees() const noexcept { return !failure && outcomes.size() <= 1; }
  /// The above in words, with how to see each outcome again.
  [[nodiscard]] std::string describe() const;
};

namespace detail {

[[nodiscard]] Exploration explore(std::function<std::string(SimOptions const&)> const& program,
                                  ExploreOptions const& options);

/// What a program returns, as text that differs when it differs.
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
      out += text(out.empty() ? "" : ", ", element);
    }
    return out;
  } else {
    return text(result);
  }
}

}  // namespace detail

/// Runs `program(SimOptions)` from its start again and again, each time in another order, until it
/// has been run in every one, or in `random_schedules` random ones, or has failed.
///
/// The program makes one Sim, or Device<Sim>, with the options that it gets, and must depend on
/// nothing else that changes. It says that an order is wrong by throwing or by returning false; it
/// may return what it computed (text, a number, a range of them), and orders that come to different
/// outcomes are told apart. MSSTREAM_SIM_SCHEDULE, if set, is the only schedule tried.
///
/// Every order means: every order of what can be told apart. Two pieces of work are told apart when
/// they use the same bytes and one writes them, by the declared uses of their operation, or by
/// their own for copies and fills; work outside every operation is told apart from everything. The
/// host is told apart from the work at a query that finds it done or not, at declared uses of
/// pinned memory, at frees, and, after each call that waits or asks, from work on pinned memory
/// whose owner does not declare its uses. A program that asks for the same again and again is not
/// left waiting for ever.
///
/// The search is a depth-first one without stored states that adds a branch where a run shows two
/// steps that could have come the other way round (Abdulla, Aronis, Jonsson, Sagonas: Optimal
/// Dynamic Partial Order Reduction, 2014, the source-set variant with sleep sets).
template <class Program>
Exploration explore(Program&& program, ExploreOptions const& options = {}) {
  return detail::explore(
      [&](SimOptions const& runtime) -> std::string {
        if constexpr (std::is_void_v<std::invoke_result_t<Program&, SimOptions const&>>) {
          program(runtime);
          return {};
        } else {
          return detail::outcome_of(program(runtime));
        }
      },
      options);
}

}  // namespace msstream::sim
