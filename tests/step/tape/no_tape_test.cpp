// SPDX-License-Identifier: Apache-2.0
// Runs one function of a model with a tape, without one, and in a captured step.
#include "ops/ops_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace msstream::testing {
namespace {

using ops::Activation;
using ops::Pooling;

constexpr std::int64_t kNoTapeBatch = 37;
constexpr std::int64_t kNoTapeWidth = 8;

/// A model that uses most operations, whose forward takes a GradientTape or no_tape.
template <class R>
struct OneForward {
  using Input = Tensor<float, R>;

  Input table;
  ops::Bags<R> bags;
  Tensor<std::int64_t, R> ids;
  Tensor<std::int64_t, R> offsets;
  Input numbers;
  Input square_weight;
  Input wide_weight;
  Input bias;
  Input labels;

  auto forward(auto& tape) const {
    auto const pooled = ops::embedding_lookup(tape, table, bags, {.pooling = Pooling::mean});
    auto const gathered = ops::gather_rows(tape, table, ids);
    auto dense = ops::dense(tape, numbers, square_weight, bias, Activation::relu);
    dense = ops::layer_norm(tape, dense, bias, bias);
    dense = ops::add(tape, ops::gelu(tape, dense), ops::silu(tape, dense));
    dense = ops::prelu(tape, ops::tanh(tape, dense), bias);
    auto crossed = ops::dot_interaction(tape, dense, ops::concat(tape, {pooled, gathered}));
    auto const blocks = ops::split(tape, crossed, {kNoTapeWidth, 3});
    crossed = ops::concat(tape, {ops::sigmoid(tape, blocks[1]), blocks[0]});
    auto const scores = ops::attention_scores(tape, pooled, gathered);
    auto const mixed = ops::matmul(tape, ops::softmax(tape, scores), gathered);
    auto const listed = ops::dense_to_jagged(
        tape, mixed.reshaped({kNoTapeBatch, 1, kNoTapeWidth}), offsets, kNoTapeBatch);
    auto const summed = ops::segment_reduce(tape, listed, offsets, ops::SegmentReduction::sum);
    auto const repeated = ops::repeat_rows(tape, summed, offsets, kNoTapeBatch);
    auto const best = ops::top_k(tape, ops::l2_normalize(tape, repeated), 4).values;
    auto const logits = ops::dense(
        tape, ops::concat(tape, {crossed, best}), wide_weight, bias.rows(0, 1), Activation::none);
    return ops::mean(tape,
                     ops::bce_with_logits(
                         tape, ops::clamp(tape, ops::scale(tape, logits, 0.5F), -4, 4), labels));
  }
};

template <class R>
class NoTapeTest : public OpsTest<R> {
 protected:
  OneForward<R> model() {
    Integers ids(kNoTapeBatch);
    Integers bags(2 * kNoTapeBatch);
    Integers offsets(kNoTapeBatch + 1);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      offsets[i] = static_cast<std::int64_t>(i);
    }
    std::ranges::generate(ids, [this] { return this->random.integer(0, 49); });
    std::ranges::generate(bags, [this] { return this->random.integer(0, 49); });
    return {this->random_tensor({50, kNoTapeWidth}),
            ops::Bags<R>(this->put(bags, {kNoTapeBatch, 2})),
            this->put(ids),
            this->put(offsets),
            this->random_tensor({kNoTapeBatch, kNoTapeWidth}),
            this->random_tensor({kNoTapeWidth, kNoTapeWidth}),
            this->random_tensor({kNoTapeWidth + 3 + 4, 1}),
            this->random_tensor({kNoTapeWidth}),
            this->put(this->random.reals(kNoTapeBatch, 0.0F, 1.0F), {kNoTapeBatch, 1})};
  }
};
TYPED_TEST_SUITE(NoTapeTest, Runtimes, RuntimeNames);

TYPED_TEST(NoTapeTest, one_forward_gives_equal_bits_with_a_tape_without_and_captured) {
  auto const model = this->model();
  GradientTape tape(this->device());
  auto const trained = model.forward(tape);
  tape.backward(trained);
  EXPECT_TRUE(tape.has_gradient(model.square_weight));
  auto const expected = to_host(trained);

  EXPECT_EQ(to_host(model.forward(no_tape)), expected);

  tape.clear();
  {
    typename GradientTape<TypeParam>::Pause const pause(tape);
    EXPECT_EQ(to_host(model.forward(tape)), expected);
  }
  std::optional<Tensor<float, TypeParam>> served;
  CapturedStep<TypeParam> step(this->device(), [&] { served = model.forward(no_tape); });
  step.replay();
  EXPECT_EQ(to_host(*served), expected);
}

/// A model with dropout and batch norm, whose batch is divided among groups for the dropout.
template <class R>
class DroppingModel {
 public:
  explicit DroppingModel(int groups)
      : pool_(device_, {.groups = groups}),
        groups_(groups),
        random_(device_, {.seed = 17}),
        input_(ops::random_normal(device_, {kRows, kColumns}, RandomKey(1, "input"))),
        weight_(ops::random_uniform(device_, {kColumns, kColumns}, RandomKey(1, "weight"))),
        bias_(ops::random_uniform(device_, {kColumns}, RandomKey(1, "bias"))),
        running_{zeros<float>(device_, {kColumns}), zeros<float>(device_, {kColumns})} {}

  /// Returns the losses, then the gradients of the weight in the last step. If `captured`, all
  /// steps are replays of one captured step.
  [[nodiscard]] Floats run(int steps, bool captured) {
    GradientTape tape(device_);
    std::optional<Tensor<float, R>> loss;
    std::optional<Tensor<float, R>> gradient;
    auto const step = [&] {
      random_.advance();
      tape.clear();
      auto hidden = ops::dense(tape, input_, weight_, bias_);
      hidden = ops::batch_norm(tape, hidden, bias_, bias_, running_);
      std::vector<Tensor<float, R>> losses;
      for (int part = 0; part < groups_; ++part) {
        StreamScope const scope(pool_[part], {.include_grad = true});
        auto const first = kRows * part / groups_;
        auto const last = kRows * (part + 1) / groups_;
        auto const dropped = ops::dropout(tape,
                                          hidden.rows(first, last),
                                          {.rate = 0.5F, .first_sample = first},
                                          random_,
                                          "hidden");
        losses.push_back(ops::sum(tape, ops::square(tape, dropped), 1));
      }
      // The rows' losses are put together again, so that the sums do not depend on the parts.
      std::vector<Tensor<float, R>> columns;
      for (auto const& part : losses) {
        columns.push_back(part.reshaped({1, part.count()}));
      }
      loss = ops::mean(tape, ops::concat(tape, columns));
      tape.backward(*loss);
      gradient = tape.gradient(weight_);
    };
    std::optional<CapturedStep<R>> replayed;
    if (captured) {
      step();  // the first step is not captured
      replayed.emplace(device_, step);
    }
    Floats out;
    for (int i = captured ? 1 : 0; i < steps; ++i) {
      if (captured) {
        replayed->replay();
      } else {
        step();
      }
      if (i > 0) {
        out.push_back(to_host(*loss)[0]);
      }
    }
    auto const last = to_host(*gradient);
    out.insert(out.end(), last.begin(), last.end());
    return out;
  }

 private:
  static constexpr std::int64_t kRows = 61;
  static constexpr std::int64_t kColumns = 12;

  Device<R> device_;
  StreamPool<R> pool_;
  int groups_;
  RandomGenerator<R> random_;
  Tensor<float, R> input_;
  Tensor<float, R> weight_;
  Tensor<float, R> bias_;
  ops::RunningStatistics<R> running_;
};

TYPED_TEST(NoTapeTest, dropout_gives_equal_bits_in_any_number_of_groups_and_in_replays) {
  constexpr int kSteps = 4;
  auto const expected = DroppingModel<TypeParam>(1).run(kSteps, false);
  EXPECT_NE(expected[0], expected[1]);
  for (int const groups : {1, 2, 5}) {
    for (bool const captured : {false, true}) {
      EXPECT_EQ(DroppingModel<TypeParam>(groups).run(kSteps, captured), expected)
          << groups << " groups, captured " << captured;
    }
  }
}

}  // namespace
}  // namespace msstream::testing
