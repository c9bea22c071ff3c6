// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trust/api_program.hpp"
#include "trust/choices.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/sim.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {

/// Creates the device of a random program, with options that the program's choices determine.
template <class Inner>
[[nodiscard]] Device<Checked<Inner>> device_for(Choices& choose,
                                                typename Inner::Options runtime = {}) {
  bool const reduce_waits = choose.below(8) != 0;
  std::size_t const limit_bytes = choose.below(2) == 0 ? 5U << 10U : 24U << 10U;
  return Device<Checked<Inner>>(
      {.runtime = {.runtime = std::move(runtime),
                   .check = {.mode = CheckMode::throw_error, .report_path = {}}},
       .reduce_waits = reduce_waits,
       .memory = {.limit_bytes = limit_bytes, .max_growth_bytes = std::size_t{2} << 10U}});
}
[[nodiscard]] inline StreamPoolOptions pool_for(Choices& choose) {
  auto const groups = static_cast<int>(1 + choose.below(4));
  return {.groups = groups,
          .merge_streams = choose.below(2) == 0,
          .launch_threads = LaunchThreads::none};
}

/// Throws the first finding of the checker, or, if there is none, the exception of the program. The
/// checker cannot always throw a finding at once. If the program succeeded, leaks count as
/// findings, too.
inline void throw_findings(Checker& checker, std::exception_ptr const& failure) {
  if (failure == nullptr) {
    checker.report_leaks();
  }
  if (checker.count() != 0) {
    throw RaceError(checker.reports().front());
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
}

/// Runs one random program on a simulated device, which runs work in any order that the waits
/// allow. Throws the first finding, including leaks at the end of the program.
inline void run_simulated(Choices choose, std::uint64_t schedule_seed, std::size_t steps) {
  std::shared_ptr<Checker> checker;
  std::exception_ptr failure;
  try {
    auto const device = device_for<Sim>(choose, {.schedule = sim::random(schedule_seed)});
    checker = device.runtime().checker();
    StreamPool pool(device, pool_for(choose));
    ApiProgram(choose, device, pool).run(steps);
  } catch (...) {
    failure = std::current_exception();
  }
  throw_findings(*checker, failure);
}

/// Runs several random programs, each on its own thread, that share one device, pool and allocator.
/// Throws the first finding, including leaks at the end, or the exception of one of the programs.
inline void run_beside_each_other(Choices& choose_device,
                                  StreamPoolOptions const& pool_options,
                                  std::vector<Choices> programs,
                                  std::size_t steps) {
  std::shared_ptr<Checker> checker;
  std::mutex mutex;
  std::exception_ptr failure;
  {
    auto const device = device_for<Host>(choose_device);
    checker = device.runtime().checker();
    StreamPool pool(device, pool_options);
    std::vector<std::jthread> threads;
    for (auto& own : programs) {
      threads.emplace_back([&] {
        try {
          ApiProgram(own, device, pool).run(steps);
        } catch (...) {
          std::lock_guard const guard(mutex);
          failure = std::current_exception();
        }
      });
    }
  }
  throw_findings(*checker, failure);
}

}  // namespace msstream::testing
