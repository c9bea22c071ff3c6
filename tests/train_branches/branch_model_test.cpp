// SPDX-License-Identifier: Apache-2.0
#include "branch_model.hpp"

#include "ops/ops_fixture.hpp"
#include "step/model_losses.hpp"

#include <cmath>

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

}  // namespace
}  // namespace msstream::testing
