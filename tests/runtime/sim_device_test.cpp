// SPDX-License-Identifier: Apache-2.0
// Tests operations, gradients and memory of the library on the simulating runtime, for all legal
// orders of the work or for many random ones.
#include "runtime/tried.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/sim_explore.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

using R = Tried<Sim>;

[[maybe_unused]] void simulate_with(Sim::Options& options, Sim::Options const& simulation) {
  options = simulation;
}
[[maybe_unused]] void simulate_with(Checked<Sim>::Options& options,
                                    Sim::Options const& simulation) {
  options.runtime = simulation;
}

/// Returns options for a device on the simulating runtime with the options that the explorer passes
/// to the program.
DeviceOptions<R> device_options(Sim::Options const& simulation) {
  DeviceOptions<R> options;
  simulate_with(options.runtime, simulation);
  options.memory.max_growth_bytes = 1 << 16;
  return options;
}

/// Issues an operation that computes into = into * factor + from.
void combine(char const* name,
             Tensor<float, R> const& into,
             Tensor<float, R> const& from,
             float factor) {
  issue(name,
        reads(from),
        writes(into),
        [into = into.data(), from = from.data(), factor](auto stream) {
          stream.run([=] { *into = *into * factor + *from; });
        });
}

constexpr int kGroups = 3;

/// Runs six operations on each of three groups, all of which read one shared tensor, and then
/// combines the results of the groups.
std::vector<float> meeting_branches(Sim::Options const& simulation) {
  Device<R> const device(device_options(simulation));
  StreamPool<R> pool(
      device, {.groups = kGroups, .merge_streams = true, .launch_threads = LaunchThreads::none});
  auto const shared = zeros<float>(device, {1});
  fill_bytes(shared, 1);
  std::vector<Tensor<float, R>> mine;
  for (int g = 0; g < kGroups; ++g) {
    StreamScope<R> const scope(pool[g]);
    mine.push_back(zeros<float>(device, {1}));
    for (int i = 0; i < 5; ++i) {
      combine("branch", mine.back(), shared, static_cast<float>(g + 2));
    }
  }
  for (auto const& branch : mine) {
    combine("meet", mine.front(), branch, 3);
  }
  return to_host(mine.front());
}

TEST(SimExploresDevices, operations_that_are_ordered_by_their_tensors_have_one_order) {
  auto const found = sim::explore(meeting_branches);
  EXPECT_TRUE(found.complete);
  EXPECT_TRUE(found.agrees()) << to_string(found);
  EXPECT_EQ(found.schedules, 1U) << to_string(found);
  EXPECT_EQ(found.repeats, 0U);
}

TEST(SimExploresDevices, many_random_orders_agree) {
  auto const found = sim::explore(meeting_branches, {.random_schedules = 300});
  EXPECT_TRUE(found.agrees()) << to_string(found);
  EXPECT_EQ(found.schedules, 300U);
}

TEST(SimExploresDevices, memory_that_nobody_tracks_is_a_race_with_a_schedule_to_replay) {
  if (!std::is_same_v<R, Sim>) {
    GTEST_SKIP() << "the checker refuses the program before its order matters";
  }
  auto const program = [](Sim::Options const& simulation) {
    Device<R> const device(device_options(simulation));
    StreamPool<R> pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
    auto const x = zeros<float>(device, {1});
    auto* const raw = x.data();
    for (int g = 0; g < 2; ++g) {
      // Each operation declares the memory that it uses, but raw memory is not tracked, so the
      // library does not order the two operations.
      StreamScope<R> const scope(pool[g]);
      issue("untracked", writes(raw_memory(device, raw, 1)), [raw, g](auto stream) {
        stream.run([=] { *raw = *raw * 2 + static_cast<float>(g + 1); });
      });
    }
    pool[0].synchronize();
    pool[1].synchronize();
    return to_host(x);
  };
  auto const found = sim::explore(program);
  EXPECT_TRUE(found.complete);
  // The zeroing of x on the default group is not ordered with the two untracked operations either.
  EXPECT_GT(found.outcomes.size(), 1U);
  EXPECT_FALSE(found.agrees());
  for (auto const& seen : found.outcomes) {
    auto const again = program({.schedule = sim::schedule_from(seen.schedule)});
    EXPECT_EQ(sim::detail::outcome_of(again), seen.outcome);
  }
}

TEST(SimExploresDevices, a_training_step_has_one_result_in_every_order_tried) {
  auto const found = sim::explore(
      [](Sim::Options const& simulation) {
        Device<R> const device(device_options(simulation));
        StreamPool<R> pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
        GradientTape<R> tape(device);
        auto const x = to_device<float>(device, {1, 2, 3, 4}, {2, 2});
        auto const weights = to_device<float>(device, {1, -1, 0.5F, 2}, {2, 2});
        auto const bias = zeros<float>(device, {2});
        std::vector<Tensor<float, R>> halves;
        for (int g = 0; g < 2; ++g) {
          StreamScope<R> const scope(pool[g], {.include_grad = true});
          halves.push_back(ops::dense(tape, x, weights, bias, ops::Activation::relu));
        }
        tape.backward(ops::sum(tape, ops::add(tape, halves)));
        auto gradients = to_host(tape.gradient(weights));
        auto const of_bias = to_host(tape.gradient(bias));
        gradients.insert(gradients.end(), of_bias.begin(), of_bias.end());
        return gradients;
      },
      {.random_schedules = 200});
  EXPECT_TRUE(found.agrees()) << to_string(found);
  EXPECT_EQ(found.outcomes.size(), 1U);
}

TEST(SimDevice, launch_threads_are_refused) {
  Device<R> const device(device_options({}));
  StreamPool<R> pool(device, {.groups = 1, .launch_threads = LaunchThreads::shared});
  auto const x = zeros<float>(device, {1});
  {
    StreamScope<R> const scope(pool[0]);
    fill_bytes(x, 1);
  }
  try {
    pool[0].synchronize();
    FAIL() << "did not throw";
  } catch (std::logic_error const& error) {
    EXPECT_NE(std::string(error.what()).find("cannot have launch threads"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace msstream::testing
