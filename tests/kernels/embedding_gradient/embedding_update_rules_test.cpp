// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding_gradient/embedding_update_fixture.hpp"

#include <msstream/base/format.hpp>

#include <fmt/core.h>

namespace msstream::ops::kernels::testing {
namespace {

/// The quantities in double from which the error bound of a weight in float is computed.
struct BoundedWeight {
  double moved = 0.0;    ///< sum of the magnitudes of all changes of the weight
  double largest = 0.0;  ///< largest magnitude of the weight so far
};
struct BoundedRow {
  double moves = 0.0;
  double roundings = 0.0;  ///< relative errors of a change and of the state, in units of 2^-24
};

/// Compares embedding_update() with the same steps computed in double: pooling, row gradients, and
/// one change of each unique row.
///
/// Weights are positive, and so are the gradients of bags but for a sign that is fixed for each
/// column, so that no terms cancel, and a sum of n addends errs by at most n - 1 units, relative to
/// itself. A unit is 2^-24, half a unit in the last place.
/// - A row gradient: n addends, each divided by a divisor of up to kLongest weights: n + 12.
/// - State after t steps: squares of gradients, at most a mean over the width, and three operations
///   for each step: 2 (n + 12) + width + 3 t.
/// - A change of a weight: eight more operations, among them Adam's corrections.
/// - A weight: the error of each change, a unit for each subtraction, and half a unit in the last
///   place of its type when it is stored.
/// Products of errors are of the order of 2^-48, far below the hundredth that is added.
template <class Stream>
class EmbeddingUpdateRulesTest : public UpdateTest<Stream> {
 protected:
  static constexpr int kSteps = 5;  // one step for each pooling
  static constexpr std::int64_t kLongest = 6;

  /// Returns random bags of which some are empty and the last ten do not exist. One in ten ids is
  /// outside the table.
  GradientCase random_case(std::int64_t bags, std::int64_t width, Pooling pooling) {
    auto some = this->random_bags(bags, kLongest, 9);
    some.existing = bags - 10;
    some.width = width;
    some.pooling = pooling;
    some.default_id = pooling == Pooling::none ? -1 : 3;
    if (pooling != Pooling::max) {
      some.weights = this->random.reals(some.capacity(), 0.25F, 2.0F);
    }
    return some;
  }
  template <class T>
  std::vector<T> gradient_of(GradientCase const& some, Floats const& signs) {
    std::vector<T> gradient;
    for (auto const value : this->random.reals(some.output_rows() * some.width, 0.25F, 1.0F)) {
      gradient.push_back(from_float<T>(value * signs[gradient.size() % signs.size()]));
    }
    return gradient;
  }

  template <class T = float>
  void expect_the_rule(OptimizerKind kind, DType dtype, std::int64_t bags, std::int64_t width) {
    SCOPED_TRACE(
        fmt::format("kind {}, {}, {} bags, width {}", static_cast<int>(kind), dtype, bags, width));
    OptimizerRule const rule{.kind = kind, .learning_rate = 0.1F};
    auto const rows = GradientCase{}.rows;
    auto const columns = static_cast<std::size_t>(width);
    auto const start = this->random_table(dtype, rows * width);
    Floats const no_state(static_cast<std::size_t>(rows * width), 0.0F);
    UploadedTable const table{
        dtype, this->upload(start), this->upload(no_state), this->upload(no_state)};
    auto const counter = this->upload(std::vector{StepState{}});
    std::vector<ReferenceWeight> expected;
    for (float const weight : unpacked(start, dtype)) {
      expected.push_back({weight});
    }
    std::vector<BoundedWeight> bounds(expected.size());
    std::vector<BoundedRow> row_bounds(static_cast<std::size_t>(rows));
    Floats signs(columns);
    std::generate(
        signs.begin(), signs.end(), [&] { return this->random.integer(0, 1) == 0 ? 1.0F : -1.0F; });

    for (int t = 1; t <= kSteps; ++t) {
      auto const some = random_case(bags, width, kPoolings[t - 1]);
      auto const gradient = gradient_of<T>(some, signs);
      auto const argmax = this->random_argmax(some);
      advance_step(this->stream(), rule, counter.data());
      this->update(rule,
                   counter.data(),
                   this->template upload_case<std::int64_t>(some, gradient, argmax),
                   table);

      ReferenceGradients const reference(some, gradient, argmax);
      for (auto const& [id, sums] : reference.sums) {
        auto const row = static_cast<std::size_t>(id);
        std::span const weights(expected.data() + row * columns, columns);
        std::vector<ReferenceWeight> const before(weights.begin(), weights.end());
        move_row(weights, rule, sums, t);
        row_bounds[row].moves += 1.0;
        row_bounds[row].roundings =
            std::max(row_bounds[row].roundings,
                     2.0 * (reference.addends.at(id) + 12.0) + static_cast<double>(width));
        for (std::size_t c = 0; c < columns; ++c) {
          auto& bound = bounds[row * columns + c];
          bound.moved += std::abs(weights[c].weight - before[c].weight);
          bound.largest =
              std::max({bound.largest, std::abs(before[c].weight), std::abs(weights[c].weight)});
        }
      }
      expect_moved(rule, table, expected, bounds, row_bounds, t);
    }
  }

 private:
  void expect_moved(OptimizerRule const& rule,
                    UploadedTable const& table,
                    std::vector<ReferenceWeight> const& expected,
                    std::vector<BoundedWeight> const& bounds,
                    std::vector<BoundedRow> const& row_bounds,
                    int t) {
    constexpr double kUnit = 1.01 * 0x1p-24;
    double const stored = table.dtype == DType::float32   ? 0.0
                          : table.dtype == DType::float16 ? 1.01 * 0x1p-11
                                                          : 1.01 * 0x1p-8;
    double const stored_subnormal = table.dtype == DType::float16 ? 0x1p-25 : 0.0;
    auto const weights = unpacked(this->read(table.weights), table.dtype);
    auto const first = this->read(table.state0);
    auto const second = this->read(table.state1);
    auto const columns = expected.size() / row_bounds.size();
    bool const is_of_rows = rule.kind == OptimizerKind::rowwise_adagrad;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      auto const& [moves, row_roundings] = row_bounds[i / columns];
      auto const roundings = row_roundings + 3.0 * t;
      // A row without an id does not change, so its bounds are 0.
      ASSERT_NEAR(weights[i],
                  expected[i].weight,
                  (roundings + 8.0) * kUnit * bounds[i].moved +
                      moves * ((kUnit + stored) * bounds[i].largest + stored_subnormal))
          << "weight " << i << " after step " << t;
      double const state = !is_of_rows             ? expected[i].first
                           : i < row_bounds.size() ? expected[i * columns].first
                                                   : 0.0;
      double const state_roundings = !is_of_rows             ? roundings
                                     : i < row_bounds.size() ? row_bounds[i].roundings + 3.0 * t
                                                             : 0.0;
      ASSERT_NEAR(first[i], state, state_roundings * kUnit * std::abs(state))
          << "first state " << i << " after step " << t;
      ASSERT_NEAR(second[i], expected[i].second, roundings * kUnit * expected[i].second)
          << "second state " << i << " after step " << t;
    }
  }
};
TYPED_TEST_SUITE(EmbeddingUpdateRulesTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingUpdateRulesTest, follows_the_rules_in_double) {
  for (auto const kind : kOptimizerKinds) {
    for (auto const dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      for (std::int64_t const width : {1, 4, 33, 128}) {
        for (std::int64_t const bags : {100, 1200}) {  // in one launch, and in several
          this->expect_the_rule(kind, dtype, bags, width);
        }
      }
    }
  }
}

TYPED_TEST(EmbeddingUpdateRulesTest, takes_half_precision_gradients) {
  for (auto const kind : kOptimizerKinds) {
    this->template expect_the_rule<float16>(kind, DType::float16, 1200, 20);
    this->template expect_the_rule<bfloat16>(kind, DType::bfloat16, 1200, 20);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
