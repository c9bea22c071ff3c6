// SPDX-License-Identifier: Apache-2.0
#include "branch_model.hpp"

#include "ops/ops_fixture.hpp"

#include <cmath>
#include <cstdint>
#include <optional>

namespace msstream::testing {
namespace {

constexpr std::int64_t kWidth = 12;
constexpr int kLayers = 3;
constexpr std::int64_t kTarget = 5;

struct Run {
  int groups = 1;
  bool captured = false;
  LaunchThreads launch_threads = LaunchThreads::none;
};

template <class R>
class BranchModelTest : public OpsTest<R> {
 protected:
  using Model = train_branches::BranchModel<R>;

  /// The losses of some steps of training, each before the step.
  Floats losses(Run const& run) {
    Device<R> const& device = this->device();
    StreamPool<R> pool(device, {.groups = run.groups, .launch_threads = run.launch_threads});
    GradientTape<R> tape(device);
    Model model(device, {.width = kWidth, .layers = kLayers, .target = kTarget});
    auto const batch = model.random_batch(device);
    Optimizer<R> optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 1e-2F});
    model.visit_parameters(
        [&](auto const& name, auto const& weight) { optimizer.add(name, weight); },
        [](auto const&, auto const&) {});
    std::optional<Tensor<float, R>> loss;
    auto const train = [&] {
      loss = model.loss(tape, pool, batch);
      tape.backward(*loss);
      optimizer.step(tape);
      tape.clear();
    };
    Floats values;
    auto const note = [&] { values.push_back(to_host(*loss).front()); };
    train();
    note();
    if constexpr (CapturingRuntime<R>) {
      if (run.captured) {
        CapturedStep<R> step(device, train);
        for (int i = 0; i < 3; ++i) {
          step.replay();
          note();
        }
        return values;
      }
    }
    for (int i = 0; i < 3; ++i) {
      train();
      note();
    }
    return values;
  }
};
TYPED_TEST_SUITE(BranchModelTest, Runtimes, RuntimeNames);

TYPED_TEST(BranchModelTest, losses_have_the_same_bits_however_a_step_is_issued) {
  auto const expected = this->losses({});
  EXPECT_TRUE(std::isfinite(expected.back()));
  EXPECT_NE(expected.back(), expected.front()) << "it moves";
  for (int const groups : {1, 2, 4}) {
    SCOPED_TRACE(text(groups, " groups"));
    EXPECT_EQ(this->losses({.groups = groups}), expected);
    EXPECT_EQ(this->losses({.groups = groups, .launch_threads = LaunchThreads::per_group}),
              expected);
    if constexpr (CapturingRuntime<TypeParam>) {
      EXPECT_EQ(this->losses({.groups = groups, .captured = true}), expected);
    }
  }
}

}  // namespace
}  // namespace msstream::testing
