// SPDX-License-Identifier: Apache-2.0
#include "reference/torch_optimizers.hpp"

#include "ops/ops_fixture.hpp"

#include <msstream/ops/optimizer.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <cstddef>
#include <cstdint>

/// Compares optimizers and schedules with PyTorch's, whose results torch_optimizers.py has recorded
/// in torch_optimizers.hpp.
namespace msstream::testing {
namespace {

template <class R>
class TorchOptimizersTest : public OpsTest<R> {
 protected:
  [[nodiscard]] static Floats gradient(int step) {
    Floats values;
    for (int i = 0; i < kTorchCount; ++i) {
      values.push_back(static_cast<float>((7 * i + 13 * step) % 17 - 8) / 16.0F + 1.0F / 32.0F);
    }
    return values;
  }
  [[nodiscard]] static Floats start() {
    Floats values;
    for (int i = 0; i < kTorchCount; ++i) {
      values.push_back(1.0F + static_cast<float>(i) / 8.0F);
    }
    return values;
  }
};
TYPED_TEST_SUITE(TorchOptimizersTest, Runtimes, RuntimeNames);

TYPED_TEST(TorchOptimizersTest, dense_parameters_and_rows_move_as_in_pytorch) {
  for (auto const& torch : kTorchRules) {
    SCOPED_TRACE(torch.name);
    for (bool const is_table : {false, true}) {
      Shape const shape{1, kTorchCount};
      auto const weight = this->put(this->start(), shape);
      OptimizerOptions options;
      if (torch.clip_norm > 0.0F) {
        options.clip_norm = torch.clip_norm;
      }
      Optimizer<TypeParam> optimizer(this->device(), torch.rule, options);
      is_table ? optimizer.add_table("w", weight) : optimizer.add("w", weight);
      GradientTape tape(this->device());
      for (int step = 1; step <= kTorchSteps; ++step) {
        auto const used =
            is_table ? ops::embedding_lookup(tape, weight, {this->put(Integers{0})}) : weight;
        auto const gradient = this->put(this->gradient(step), shape);
        tape.without_gradient(gradient);
        tape.backward(ops::sum(tape, ops::multiply(tape, used, gradient)));
        optimizer.step(tape);
        tape.clear();
        // PyTorch divides by the norm + 1e-6.
        double const tolerance = torch.clip_norm > 0.0F ? 5e-6 : 1e-6;
        if (step == 1) {
          expect_near(to_host(weight), torch.after_one, tolerance);
        }
      }
      expect_near(to_host(weight), torch.after_all, 1e-5);
    }
  }
}

TEST(TorchSchedulesTest, factors_are_those_of_pytorch) {
  for (auto const& torch : kTorchSchedules) {
    SCOPED_TRACE(torch.name);
    for (std::size_t step = 0; step < torch.factors.size(); ++step) {
      EXPECT_NEAR(
          torch.schedule.factor(static_cast<std::int64_t>(step)), torch.factors[step], 1e-12)
          << "step " << step;
    }
  }
}

}  // namespace
}  // namespace msstream::testing
