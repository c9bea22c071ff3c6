// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/watchdog.hpp"
#include "faulty/world.hpp"

#include <msstream/base/error.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace msstream::testing {

/// A test scenario: a sequence of operations on a device, which the scenario opens itself. It must
/// end with a call that waits, so that every failure has been reported by then.
template <Runtime Inner>
struct Scenario {
  std::string name;
  std::function<void(World<Inner>&)> run;
  /// Checks that must succeed after the scenario has failed, in addition to the check for right
  /// results on all groups.
  std::function<void(World<Inner>&)> again = [](World<Inner>&) {};
};

/// Runs a scenario once for each runtime call that it makes and each kind of fault. That call fails
/// with the fault, and the state of the device after the scenario is checked.
template <Runtime Inner>
class EveryCall {
 public:
  explicit EveryCall(Scenario<Inner> scenario) : scenario_(std::move(scenario)) {
    neighbour_.open();
  }

  void run() {
    std::uint64_t const calls = count();
    EXPECT_GT(calls, 0U);
    for (auto const fault : {Fault::out_of_memory, Fault::launch_failure, Fault::sticky}) {
      // The number of calls depends on the progress of other threads, so the loop ends only when
      // the scenario makes no call with the number.
      for (std::uint64_t number = 1; fails(number, fault) || number <= calls; ++number) {
        if (::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure()) {
          return;
        }
      }
    }
  }

 private:
  /// The outcome of a scenario: its exception, if it threw one.
  struct Outcome {
    bool thrown = false;
    bool out_of_memory = false;
    int code = 0;
    std::string message = "no exception";
  };

  std::uint64_t count() {
    World<Inner> world;
    Watchdog const watchdog([&] { return describe(world, 0, Fault::sticky); });
    scenario_.run(world);
    world.close();
    EXPECT_EQ(to_string(*world.census), Census::nothing());
    return world.plan->call_count();
  }

  /// Runs the scenario with a fault in the call with this number. Returns false if the scenario
  /// makes fewer calls.
  bool fails(std::uint64_t number, Fault fault) {
    World<Inner> world;
    Watchdog const watchdog([&] { return describe(world, number, fault); });
    world.plan->fail(number, fault);
    auto const outcome = outcome_of(world);
    auto const failed = world.plan->failed();
    SCOPED_TRACE(describe(world, number, fault));
    if (failed) {
      expect_told(outcome, *failed, fault);
      if (fault == Fault::sticky) {
        expect_lost(world);
        expect_right_results(neighbour_);
      } else {
        expect_mended(world);
      }
    } else {
      EXPECT_FALSE(outcome.thrown) << outcome.message;
    }
    // Destroys the world here, because destructors also make calls, which may fail.
    world.close();
    EXPECT_EQ(to_string(*world.census), Census::nothing());
    return world.plan->failed().has_value();
  }

  Outcome outcome_of(World<Inner>& world) {
    Outcome outcome{true};
    try {
      scenario_.run(world);
      outcome.thrown = false;
    } catch (OutOfMemory const& error) {
      outcome.out_of_memory = true;
      outcome.message = error.what();
    } catch (CudaError const& error) {
      outcome.code = error.code();
      outcome.message = error.what();
    } catch (std::exception const& error) {
      outcome.message = error.what();
    }
    return outcome;
  }

  static void expect_told(Outcome const& outcome, FaultPlan::Call const& failed, Fault fault) {
    bool const allocates = failed.kind == RuntimeCall::allocate_device ||
                           failed.kind == RuntimeCall::allocate_pinned ||
                           failed.kind == RuntimeCall::map_pages;
    if (fault == Fault::out_of_memory && allocates) {
      // No exception is also right, because the allocator may have recovered with less memory.
      EXPECT_TRUE(!outcome.thrown || outcome.out_of_memory) << outcome.message;
      return;
    }
    int const expected = fault == Fault::sticky ? 700 : fault == Fault::launch_failure ? 719 : 2;
    EXPECT_EQ(outcome.code, expected) << outcome.message;
  }

  void expect_mended(World<Inner>& world) {
    ASSERT_NO_THROW(world.open());
    ASSERT_NO_THROW(expect_left_behind_in_order(world));
    world.left_behind.clear();
    ASSERT_NO_THROW(expect_right_results(world));
    ASSERT_NO_THROW(scenario_.again(world));
    EXPECT_EQ(world.device->memory_statistics().live_bytes, 0U);
  }

  static void expect_lost(World<Inner>& world) {
    if (world.pool) {
      EXPECT_THROW(world.pool->synchronize(), CudaError);
      EXPECT_THROW(expect_right_results(world), CudaError);
    }
  }

  std::string describe(World<Inner> const& world, std::uint64_t number, Fault fault) const {
    auto const failed = world.plan->failed();
    auto const calls = world.plan->calls();
    return fmt::format("{}, {} at {}; the last call was {}",
                       scenario_.name,
                       name_of(fault),
                       failed ? to_string(*failed) : fmt::format("call {}, not reached", number),
                       calls.empty() ? std::string("none") : to_string(calls.back()));
  }

  Scenario<Inner> scenario_;
  World<Inner> neighbour_;  ///< another device, which no fault may affect
};

}  // namespace msstream::testing
