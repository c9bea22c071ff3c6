// SPDX-License-Identifier: Apache-2.0
// Tests the copies in half precision that update_dense() writes beside the weights.
#include "kernels/kernel_fixture.hpp"
#include "kernels/optimizer/optimizer_reference.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

constexpr OptimizerKind kDenseKinds[] = {OptimizerKind::sgd,
                                         OptimizerKind::momentum,
                                         OptimizerKind::adagrad,
                                         OptimizerKind::adam,
                                         OptimizerKind::adamw,
                                         OptimizerKind::lamb,
                                         OptimizerKind::ftrl,
                                         OptimizerKind::rmsprop,
                                         OptimizerKind::lion};

template <class Stream>
class DenseCopyTest : public KernelTest<Stream> {
 protected:
  struct Parameter {
    std::int64_t shift;  ///< elements in front of those of the parameter
    std::vector<float> start;
    Buffer<float> weight;
    Buffer<float> gradient;
    Buffer<float> state0;
    Buffer<float> state1;

    [[nodiscard]] DenseUpdate update(OptimizerKind kind) const {
      return {.weight = weight.data() + shift,
              .gradient = gradient.data() + shift,
              .state0 = has_first(kind) ? state0.data() + shift : nullptr,
              .state1 = has_second(kind) ? state1.data() + shift : nullptr,
              .count = static_cast<std::int64_t>(start.size()) - shift};
    }
  };
  Parameter parameter(std::int64_t count, std::int64_t shift) {
    auto const start = this->random.reals(count + shift);
    auto const zeros = std::vector<float>(start.size(), 0.0F);
    return {shift,
            start,
            this->upload(start),
            this->upload(this->random.reals(count + shift)),
            this->upload(zeros),
            this->upload(zeros)};
  }

  /// Updates parameters by a rule, of which all but the first have a copy of T, and expects that
  /// the copies are the updated weights, rounded.
  template <class T>
  void expect_copies(OptimizerKind kind, bool is_skipped) {
    StepState state{.step = 1};
    state.gradient_factor = is_skipped ? 0.0F : 1.0F;
    auto const step = this->upload(std::vector{state});
    std::vector<Parameter> parameters;
    std::vector<Buffer<T>> copies;
    std::vector<DenseUpdate> updates;
    for (auto const& [count, shift] : {std::pair<std::int64_t, std::int64_t>{5, 0},
                                       {1, 0},
                                       {4'096, 0},
                                       {2'051, 0},
                                       {300, 1},
                                       {0, 0},
                                       {70'000, 0}}) {
      auto const& own = parameters.emplace_back(parameter(count, shift));
      copies.push_back(this->template poisoned<T>(count + shift));
      updates.push_back(own.update(kind));
      if (parameters.size() > 1) {
        updates.back().copy_dtype = dtype_of<T>;
        updates.back().copy = copies.back().data() + shift;
      }
    }
    auto const workspace = this->workspace(dense_workspace_bytes(kind, updates));
    OptimizerRule const rule{.kind = kind, .learning_rate = 0.1F};
    update_dense(this->stream(), rule, step.data(), updates, workspace.data());
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      auto const& own = parameters[p];
      auto const weights = this->read(own.weight);
      auto const halves = this->read(copies[p]);
      bool const moves = own.update(kind).count > 0 && !is_skipped;
      EXPECT_EQ(weights != own.start, moves) << "parameter " << p;
      for (auto i = static_cast<std::size_t>(own.shift); p > 0 && i < weights.size(); ++i) {
        ASSERT_EQ(halves[i].bits, from_float<T>(weights[i]).bits)
            << "parameter " << p << ", element " << i;
      }
    }
  }
};
TYPED_TEST_SUITE(DenseCopyTest, StreamKinds, StreamKindName);

TYPED_TEST(DenseCopyTest, copies_are_the_updated_weights_rounded) {
  for (auto const kind : kDenseKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    this->template expect_copies<bfloat16>(kind, false);
    this->template expect_copies<float16>(kind, false);
  }
}

TYPED_TEST(DenseCopyTest, copies_are_written_in_a_step_that_is_skipped) {
  for (auto const kind : kDenseKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    this->template expect_copies<bfloat16>(kind, true);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
