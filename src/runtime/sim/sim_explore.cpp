// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/sim_machine.hpp"
#include "runtime/sim/sim_search.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/runtime/sim_explore.hpp>

#include <fmt/core.h>

#include <exception>
#include <memory>
#include <unordered_map>

namespace msstream::sim {

namespace {

/// Runs a program under one schedule of the simulated device after another, and counts the
/// different outcomes.
class Tally {
 public:
  using Program = std::function<std::string(Sim::Options const&)>;

  Tally(Program const& program, Sim::Options const& runtime)
      : program_(program), runtime_(runtime) {
    runtime_.on_start = [this, also = runtime.on_start](auto const& machine) {
      machine_ = machine;
      if (also) {
        also(machine);
      }
    };
  }

  /// Runs the program under the schedule and returns its outcome. If the program throws, stores the
  /// failure and returns nothing.
  template <class Written>
  [[nodiscard]] std::optional<std::string> run(ScheduleFactory schedule, Written&& written) {
    runtime_.schedule = std::move(schedule);
    std::optional<std::string> outcome;
    try {
      outcome = program_(runtime_);
    } catch (std::exception const& error) {
      result.failure = {error.what(), {}};
    } catch (...) {
      result.failure = {"an exception that is no std::exception", {}};
    }
    // Runs the work that the program has not waited for. Otherwise queued work that owns the last
    // reference to the device would keep it alive.
    if (auto const machine = machine_.lock()) {
      machine->finish();
    }
    if (!outcome) {
      result.failure->schedule = written();
    }
    return outcome;
  }
  template <class Written>
  void count(std::string outcome, Written&& written) {
    auto const [found, is_new] = known_.try_emplace(std::move(outcome), result.outcomes.size());
    if (is_new) {
      result.outcomes.push_back({found->first, written(), 0});
    }
    ++result.outcomes[found->second].runs;
    ++result.schedules;
  }

  Exploration result;

 private:
  Program const& program_;
  Sim::Options runtime_;
  std::weak_ptr<Machine> machine_;
  std::unordered_map<std::string, std::size_t> known_;
};

void run_one(Tally& tally, std::string const& written) {
  auto const name = [&] { return written; };
  if (auto outcome = tally.run(schedule_from(written), name)) {
    tally.count(std::move(*outcome), name);
  }
}

void run_all(Tally& tally, Exploration::Options const& options) {
  Search search(options.reduce);
  auto const name = [&] { return written_replay(search.choices()); };
  std::size_t runs = 0;
  do {
    if (runs++ == options.most_runs) {
      return;
    }
    search.begin_run();
    auto outcome = tally.run([&] { return search.schedule(); }, name);
    if (!outcome) {
      return;
    }
    if (search.repeats()) {
      ++tally.result.repeats;
    } else {
      tally.count(std::move(*outcome), name);
    }
  } while (search.next_run());
  tally.result.complete = true;
}

}  // namespace

namespace detail {

Exploration explore(std::function<std::string(Sim::Options const&)> const& program,
                    Exploration::Options const& options) {
  Tally tally(program, options.runtime);
  auto const only = env::value_of("MSSTREAM_SIM_SCHEDULE");
  if (!only.empty()) {
    run_one(tally, std::string(only));
  } else if (options.random_schedules == 0) {
    run_all(tally, options);
  } else {
    for (std::size_t i = 0; i < options.random_schedules && !tally.result.failure; ++i) {
      run_one(tally, written_random(options.first_seed + i));
    }
  }
  return std::move(tally.result);
}

std::string outcome_of_number(std::int64_t number) {
  return std::to_string(number);
}
std::string outcome_of_number(std::uint64_t number) {
  return std::to_string(number);
}
std::string outcome_of_number(float number) {
  return fmt::format("{}", number);
}
std::string outcome_of_number(double number) {
  return fmt::format("{}", number);
}

}  // namespace detail

std::string to_string(Exploration const& exploration) {
  auto const& [schedules, repeats, complete, outcomes, failure] = exploration;
  std::string out = fmt::format("{} orders, {} there are", schedules, complete ? "all" : "not all");
  if (failure) {
    out += fmt::format("; failed: {} (MSSTREAM_SIM_SCHEDULE={})", failure->what, failure->schedule);
  }
  if (outcomes.size() > 1) {
    out += fmt::format("; {} different outcomes:", outcomes.size());
    for (auto const& seen : outcomes) {
      out += fmt::format(
          "\n  {} times, MSSTREAM_SIM_SCHEDULE={}: {}", seen.runs, seen.schedule, seen.outcome);
    }
  }
  return out;
}

}  // namespace msstream::sim
