// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

/// Tests attention over lists of any length: each wanted row is compared with all rows of its list,
/// and nothing is padded or cut off.
namespace msstream::testing {
namespace {

constexpr std::int64_t kAttendedWidth = 4;

/// Returns the mean of each list's rows, weighted by the softmax of their products with the list's
/// wanted row. The results are interests [lists, kAttendedWidth].
template <Runtime R>
Tensor<float, R> interests(auto& tape,
                           Tensor<float, R> const& rows,
                           Tensor<float, R> const& wanted,
                           Tensor<std::int64_t, R> const& offsets) {
  auto const beside = ops::repeat_rows(tape, wanted, offsets, rows.shape()[0]);
  auto const products = ops::sum(tape, ops::multiply(tape, rows, beside), 1);
  auto const weights = ops::jagged_softmax(tape, products, offsets);
  auto const weighted = ops::multiply(tape, rows, weights.reshaped({rows.shape()[0], 1}));
  return ops::segment_reduce(tape, weighted, offsets, ops::SegmentReduction::sum);
}

/// Returns the interests that interests() computes, in double.
Doubles reference_interests(Doubles const& rows, Doubles const& wanted, Integers const& offsets) {
  Doubles out(wanted.size(), 0.0);
  for (std::size_t list = 0; list + 1 < offsets.size(); ++list) {
    double total = 0;
    for (auto row = offsets[list]; row < offsets[list + 1]; ++row) {
      auto const* const values = rows.data() + row * kAttendedWidth;
      double product = 0;
      for (std::size_t c = 0; c < kAttendedWidth; ++c) {
        product += values[c] * wanted[list * kAttendedWidth + c];
      }
      total += std::exp(product);
      for (std::size_t c = 0; c < kAttendedWidth; ++c) {
        out[list * kAttendedWidth + c] += std::exp(product) * values[c];
      }
    }
    for (std::size_t c = 0; c < kAttendedWidth && total > 0; ++c) {
      out[list * kAttendedWidth + c] /= total;
    }
  }
  return out;
}

Integers offsets_of_lists(Integers const& lengths) {
  Integers offsets{0};
  for (auto const length : lengths) {
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

template <class R>
class JaggedAttentionTest : public GradientTest<R> {};
TYPED_TEST_SUITE(JaggedAttentionTest, Runtimes, RuntimeNames);

TYPED_TEST(JaggedAttentionTest, gradients_count_every_row_of_short_long_and_empty_lists) {
  auto const offsets = offsets_of_lists({3, 0, 1, 33, 150, 0});
  auto const lists = std::ssize(offsets) - 1;
  auto const rows = this->random.reals(offsets.back() * kAttendedWidth);
  auto const wanted = this->random.reals(lists * kAttendedWidth);
  this->expect_gradient(
      wanted,
      {lists, kAttendedWidth},
      [&](auto& tape, auto const& x) {
        return interests(
            tape, this->put(rows, {offsets.back(), kAttendedWidth}), x, this->put(offsets));
      },
      [&](Doubles const& x) { return reference_interests(to_doubles(rows), x, offsets); });
  this->expect_gradient(
      rows,
      {offsets.back(), kAttendedWidth},
      [&](auto& tape, auto const& x) {
        return interests(tape, x, this->put(wanted, {lists, kAttendedWidth}), this->put(offsets));
      },
      [&](Doubles const& x) { return reference_interests(x, to_doubles(wanted), offsets); });
}

TYPED_TEST(JaggedAttentionTest, lists_of_thousands_of_rows_count_to_their_last_row) {
  auto const offsets = offsets_of_lists({5, 3582, 0, 40, 9001, 2});
  auto const lists = std::ssize(offsets) - 1;
  auto rows = this->random.reals(offsets.back() * kAttendedWidth);
  auto const wanted = this->random.reals(lists * kAttendedWidth);
  // The last row of each list has most of the weight.
  for (std::int64_t list = 0; list < lists; ++list) {
    auto const end = offsets[static_cast<std::size_t>(list) + 1];
    for (std::int64_t c = 0; c < kAttendedWidth && end > offsets[static_cast<std::size_t>(list)];
         ++c) {
      rows[static_cast<std::size_t>((end - 1) * kAttendedWidth + c)] =
          std::copysign(8.0F, wanted[static_cast<std::size_t>(list * kAttendedWidth + c)]);
    }
  }
  auto const expected = reference_interests(to_doubles(rows), to_doubles(wanted), offsets);
  expect_near(to_host(interests(no_tape,
                                this->put(rows, {offsets.back(), kAttendedWidth}),
                                this->put(wanted, {lists, kAttendedWidth}),
                                this->put(offsets))),
              expected,
              1e-5);
}

TYPED_TEST(JaggedAttentionTest, one_capture_serves_lists_of_other_lengths) {
  constexpr std::int64_t kAttendedRows = 5000;
  constexpr std::int64_t kAttendedLists = 4;
  auto const rows = this->random_tensor({kAttendedRows, kAttendedWidth});
  auto const wanted = this->random_tensor({kAttendedLists, kAttendedWidth});
  auto const offsets = zeros<std::int64_t>(this->device(), {kAttendedLists + 1});
  GradientTape tape(this->device());
  std::optional<Tensor<float, TypeParam>> gradient;
  auto const step = [&] {
    tape.clear();
    auto const result = interests(tape, rows, wanted, offsets);
    tape.backward(ops::sum(tape, ops::square(tape, result)));
    gradient = tape.gradient(wanted);
  };
  step();
  CapturedStep<TypeParam> captured(this->device(), step);
  auto const of_capture = *gradient;
  for (Integers const& lengths : {Integers{1, 3582, 0, 7},
                                  Integers{0, 0, 0, 0},
                                  Integers{33, 0, 32, 4935},
                                  Integers{1, 1, 1, 1}}) {
    copy(offsets, this->put(offsets_of_lists(lengths)));
    captured.replay();
    auto const replayed = to_host(of_capture);
    step();
    EXPECT_EQ(to_host(*gradient), replayed);
    auto const loss = [&](Doubles const& x) {
      double sum = 0;
      for (auto const value : reference_interests(to_doubles(to_host(rows)), x, to_host(offsets))) {
        sum += value * value;
      }
      return sum;
    };
    expect_near(replayed, numeric_gradient(loss, to_doubles(to_host(wanted))), 1e-4);
  }
}

TYPED_TEST(JaggedAttentionTest, a_capacity_has_the_losses_and_rows_of_whole_batches) {
  constexpr std::int64_t kLists = 4;
  constexpr std::int64_t kItems = 20;
  struct Inputs {
    Tensor<std::int64_t, TypeParam> ids, offsets;
  };
  auto const ones = this->put(Floats(kLists, 1.0F), {kLists, 1});
  std::vector<Integers> batches;
  for (int batch = 0; batch < 6; ++batch) {
    batches.push_back(this->random.integers(kLists, 0, 7));
  }
  auto const losses_and_table = [&](LayerActivation activation, bool with_capacity) {
    std::pair<Floats, Floats> result;
    Parameters<TypeParam> parameters(this->device(), {.seed = 1});
    auto const items = parameters.table("items", {kItems, kAttendedWidth}, init::normal());
    DenseStack<TypeParam> const attention(
        parameters, "attention", kAttendedWidth, {3, 1}, {.activation = activation});
    Optimizer optimizer(this->device(), {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F});
    optimizer.add(parameters);
    GradientTape tape(this->device());
    auto const train = [&](Inputs const& in) {
      tape.clear();
      auto const& [history, offsets] = in;
      auto const rows =
          ops::embedding_lookup(tape, items, {history, offsets}, {.pooling = ops::Pooling::none});
      auto const is_row = ops::repeat_rows(no_tape, ones, offsets, history.count());  // 1 or 0
      auto const scores = attention(tape, rows, {.mask = is_row.reshaped({history.count()})});
      auto const weights = ops::jagged_softmax(tape, scores, offsets);
      auto const interest = ops::segment_reduce(
          tape, ops::multiply(tape, rows, weights), offsets, ops::SegmentReduction::sum);
      auto const loss = ops::mean(tape, ops::square(tape, interest));
      tape.backward(loss);
      optimizer.step(tape);
      return loss;
    };
    auto const inputs_for = [&](std::int64_t capacity) {
      return Inputs{Tensor<std::int64_t, TypeParam>(this->device(), {capacity}),
                    Tensor<std::int64_t, TypeParam>(this->device(), {kLists + 1})};
    };
    CapturedSteps steps(this->device(), inputs_for, train, {.capacities = {32}});
    for (auto const& lengths : batches) {
      auto const offsets = offsets_of_lists(lengths);
      auto const count = offsets.back();
      auto const fill = [&](Inputs const& in) {
        for (std::int64_t i = 0; i < count; ++i) {
          // Ids of the batch before stay behind the last list.
          copy(in.ids.rows(i, i + 1), this->put(Integers{(i * 7 + count) % kItems}));
        }
        copy(in.offsets, this->put(offsets));
      };
      if (with_capacity) {
        result.first.push_back(to_host(steps.run(count, fill))[0]);
      } else {
        auto const exact = inputs_for(count);
        fill(exact);
        result.first.push_back(to_host(train(exact))[0]);
      }
    }
    result.second = to_host(items);
    return result;
  };
  // Sums over the rows of a batch, such as the gradients of dense layers, have as many parts as the
  // capacity needs, and are rounded accordingly.
  for (LayerActivation const activation :
       {LayerActivation(ops::Activation::relu), LayerActivation(TrainedActivation::dice)}) {
    auto const [losses, table] = losses_and_table(activation, false);
    auto const [losses_there, table_there] = losses_and_table(activation, true);
    expect_near(losses_there, Doubles(losses.begin(), losses.end()), 1e-4);
    expect_near(table_there, Doubles(table.begin(), table.end()), 1e-3);
  }
}

}  // namespace
}  // namespace msstream::testing
