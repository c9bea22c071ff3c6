// SPDX-License-Identifier: Apache-2.0
#include "branch_model.hpp"

#include "ops/ops_fixture.hpp"
#include "step/model_losses.hpp"

#include <msstream/memory/device.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace msstream::testing {
namespace {

template <class R>
class BranchModelTest : public OpsTest<R> {
 protected:
  Floats losses(StepsIssued const& issued) {
    Device<R> const& device = this->device();
    train_branches::BranchModel<R> model(device, {.width = 12, .layers = 3, .target = 5});
    return model_losses(device,
                        model,
                        model.random_batch(device),
                        {.kind = ops::OptimizerKind::adam, .learning_rate = 1e-2F},
                        4,
                        issued);
  }
};
TYPED_TEST_SUITE(BranchModelTest, Runtimes, RuntimeNames);

TYPED_TEST(BranchModelTest, losses_have_the_same_bits_however_a_step_is_issued) {
  EXPECT_TRUE(std::isfinite(this->losses({}).back()));
  expect_same_bits_however_issued<TypeParam>(
      [&](StepsIssued const& issued) { return this->losses(issued); });
}

TYPED_TEST(BranchModelTest, twenty_layers_neither_vanish_nor_overflow) {
  constexpr int kWidth = 48;
  Device<TypeParam> const& device = this->device();
  train_branches::BranchModel<TypeParam> model(device, {.width = kWidth});
  StreamPool<TypeParam> pool(device, {.groups = 4});
  GradientTape<TypeParam> tape(device);
  auto const loss = model.loss(tape, pool, model.random_batch(device));
  tape.backward(loss);
  EXPECT_LT(to_host(loss).front(), 4 * std::log(kWidth)) << "of guessing: log(48)";
  for (auto const& entry : model.parameters().entries()) {
    auto const parameter = model.parameters().template find<float>(entry.name);
    auto const gradient = to_host(tape.gradient(parameter));
    auto const moves = [](float value) {
      return std::isfinite(value * value) && value * value > 0;
    };
    EXPECT_GT(std::count_if(gradient.begin(), gradient.end(), moves), 0.95 * gradient.size())
        << entry.name;
  }
}

}  // namespace
}  // namespace msstream::testing
