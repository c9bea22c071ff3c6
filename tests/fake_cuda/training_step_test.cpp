// SPDX-License-Identifier: Apache-2.0
#include "training_step.hpp"

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

namespace fake_cuda {
namespace {

/// The numbers of operations in one training step. Each field has a hash, two lookups and their
/// gradients, one grouping of ids for both lookups, and two updates; all other operations belong to
/// the trunk and the optimizer. Two copies go to the device, and one goes to the host.
constexpr std::uint64_t kProducts = 6;
constexpr std::uint64_t kCopies = 3;
constexpr std::uint64_t kLaunches = 63;
constexpr std::uint64_t kOperations = kLaunches + kProducts + kCopies;

/// The number of steps that the host may issue before it waits for the loss of the first one.
constexpr std::size_t kStepsAhead = 2;

struct Dependencies {
  int groups;
  std::uint64_t records;
  std::uint64_t waits;
  std::uint64_t queries;  ///< queries whether memory of another group or a staging buffer is free
};

/// Returns the budget of CUDA calls for a step. It permits no creation of events, no allocation or
/// release of memory, no change of the device, and no wait of the host.
Budget budget_of(Dependencies const& allowed) {
  return Budget()
      .launches(kLaunches)
      .exactly("cudaMemcpyAsync", kCopies)
      .exactly("cublasLtMatmul", kProducts)
      .exactly("cublasLtMatmulDescSetAttribute", 4)
      .at_most("cudaEventRecord", allowed.records)
      .at_most("cudaStreamWaitEvent", allowed.waits)
      .at_most("cudaEventQuery", allowed.queries);
}

std::ostream& operator<<(std::ostream& out, Dependencies const& allowed) {
  return out << allowed.groups << " groups";
}

class TrainingStepBudget : public FakeCudaTest, public ::testing::WithParamInterface<Dependencies> {
 protected:
  static constexpr int kSteps = 40;

  /// Runs steps until every stream has created all events that it keeps for reuse. The slowest
  /// stream records one event in two steps.
  static void warm_up(TrainingStep& step) {
    repeat(3 * kWarmUp, [&] {
      step.issue();
      step.harvest(kStepsAhead);
    });
  }
  /// Runs steps, and checks the CUDA calls of each one against the budget.
  static void run(TrainingStep& step) {
    warm_up(step);
    for (int i = 0; i < kSteps; ++i) {
      auto const operations = step.operation_count();
      auto const issued = calls_of([&] { step.issue(); });
      auto const harvested = calls_of([&] { step.harvest(kStepsAhead); });
      ASSERT_EQ(step.operation_count() - operations, kOperations);
      ASSERT_TRUE(within(issued, budget_of(GetParam()))) << "step " << i;
      ASSERT_TRUE(within(harvested,
                         Budget().at_most("cudaEventRecord", 1).at_most("cudaEventSynchronize", 1)))
          << "step " << i;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Groups,
                         TrainingStepBudget,
                         ::testing::Values(Dependencies{1, 3, 3, 2},
                                           Dependencies{2, 6, 7, 3},
                                           Dependencies{4, 10, 15, 5}),
                         [](auto const& tested) { return std::to_string(tested.param.groups); });

TEST_P(TrainingStepBudget, holds_when_the_device_keeps_up) {
  TrainingStep step(GetParam().groups);
  run(step);
}

TEST_P(TrainingStepBudget, holds_when_the_device_is_behind) {
  TrainingStep step(GetParam().groups);
  BusyDevice const busy;
  run(step);
}

/// Most operations of a step need neither their own event nor a wait.
TEST_P(TrainingStepBudget, has_few_events_and_waits_an_operation) {
  TrainingStep step(GetParam().groups);
  BusyDevice const busy;
  warm_up(step);
  auto const operations = step.operation_count();
  auto const counted = calls_of([&] {
    repeat(kSteps, [&] {
      step.issue();
      step.harvest(kStepsAhead);
    });
  });
  auto const per_operation = [&](char const* call) {
    return static_cast<double>(counted[call]) /
           static_cast<double>(step.operation_count() - operations);
  };
  EXPECT_LE(per_operation("cudaEventRecord"), 0.15);
  EXPECT_LE(per_operation("cudaStreamWaitEvent"), 0.25);
}

using TrainingStepBudgetProof = FakeCudaTest;

/// Proves that the budget can fail: a tracker that elides no waits exceeds it.
TEST_F(TrainingStepBudgetProof, is_broken_by_waits_that_are_not_elided) {
  constexpr Dependencies kAllowed{4, 10, 15, 5};
  TrainingStep step(kAllowed.groups, false);
  repeat(2 * kWarmUp, [&] {
    step.issue();
    step.harvest(kStepsAhead);
  });
  auto const counted = calls_of([&] { step.issue(); });
  EXPECT_FALSE(within(counted, budget_of(kAllowed)));
  EXPECT_GT(counted["cudaStreamWaitEvent"], 2 * kAllowed.waits);
}

}  // namespace
}  // namespace fake_cuda
