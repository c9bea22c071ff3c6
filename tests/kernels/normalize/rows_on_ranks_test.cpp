// SPDX-License-Identifier: Apache-2.0
#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"
#include "normalize/batch_norm.hpp"
#include "normalize/gates.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

/// The sizes of a batch, and the rows of each rank.
struct RankedRows {
  std::int64_t width;
  std::vector<std::int64_t> of_ranks;

  [[nodiscard]] std::int64_t rows() const {
    std::int64_t rows = 0;
    for (auto const of_rank : of_ranks) {
      rows += of_rank;
    }
    return rows;
  }
  [[nodiscard]] std::int64_t ranks() const { return std::ssize(of_ranks); }
};
std::vector<RankedRows> const kRankedRows{{1, {1, 1}},
                                          {3, {0, 5}},
                                          {31, {33, 0, 64}},
                                          {33, {1, 200, 3, 65}},
                                          {5, {4097, 1000}},
                                          {129, {0, 0, 77}},
                                          {4, {0, 0}}};

[[nodiscard]] std::vector<double> as_doubles(std::vector<float> const& values) {
  return {values.begin(), values.end()};
}

/// Matrices of a batch, and the numbers of columns.
template <class Stream>
class RowsOnRanks : public KernelTest<Stream> {
 protected:
  /// Expects 1 / sqrt(variance) of a column on ranks, of whose rows the marks say which count.
  void expect_reciprocals(std::vector<float> const& input,
                          std::vector<float> const& marks,
                          std::vector<std::int64_t> const& of_ranks,
                          double expected) {
    RankedRows const on{1, of_ranks};
    auto const values = this->upload(input);
    auto const mask = this->upload(marks);
    auto const statistics = this->floats(4);
    auto const running = this->upload(std::vector<float>(2, 1.0F));
    auto const workspace =
        this->workspace(column_statistics_workspace_bytes(this->stream(), on.rows(), 1));
    auto const args = [&](std::int64_t row, std::int64_t rows) {
      return ColumnStatisticsArgs{values.data() + row,
                                  rows,
                                  1,
                                  0.0F,
                                  0.25F,
                                  statistics.data(),
                                  running.data(),
                                  running.data() + 1,
                                  workspace.data(),
                                  RowMask{mask.data() + row}};
    };
    auto const sums = this->sums(on, kColumnSums);
    this->for_each_rank(on, [&](std::int64_t rank, std::int64_t row, std::int64_t rows) {
      column_sums(this->stream(), args(row, rows), sums.data() + rank * kColumnSums);
    });
    finish_columns(this->stream(), args(0, 0), sums.data(), on.ranks());
    EXPECT_NEAR(this->read(statistics)[2] / expected, 1.0, 1e-6);
  }
  /// Compares the halves, with the rows on ranks, with the whole.
  void expect_as_whole(RankedRows const& on, bool is_masked) {
    auto const count = on.rows() * on.width;
    auto const input = this->upload(this->random.reals(count, 8.0F, 12.0F));
    auto const gradient = this->upload(this->random.reals(count));
    std::vector<float> marks(static_cast<std::size_t>(on.rows()), 1.0F);
    for (std::size_t row = 0; is_masked && row < marks.size(); row += 2) {
      marks[row] = 0.0F;
    }
    auto const mask = this->upload(marks);
    auto const mask_of = [&](std::int64_t row) {
      return is_masked ? RowMask{mask.data() + row} : RowMask{};
    };
    auto const columns = static_cast<std::size_t>(on.width);
    auto const running = [&](float first) {
      return this->upload(std::vector<float>(columns, first));
    };
    auto const bytes = column_statistics_workspace_bytes(this->stream(), on.rows(), on.width) +
                       gate_gradient_workspace_bytes(this->stream(), on.rows(), on.width) +
                       batch_norm_gradient_workspace_bytes(this->stream(), on.rows(), on.width);
    auto const workspace = this->workspace(bytes);

    auto const statistics = this->floats(4 * on.width);
    auto const mean = running(0.5F);
    auto const variance = running(2.0F);
    auto const statistics_args = [&](std::int64_t row, std::int64_t rows) {
      return ColumnStatisticsArgs{input.data() + row * on.width,
                                  rows,
                                  on.width,
                                  1e-3F,
                                  0.25F,
                                  statistics.data(),
                                  mean.data(),
                                  variance.data(),
                                  workspace.data(),
                                  mask_of(row)};
    };
    auto whole_args = statistics_args(0, on.rows());
    auto const whole = this->floats(4 * on.width);
    auto const whole_mean = running(0.5F);
    auto const whole_variance = running(2.0F);
    whole_args.statistics = whole.data();
    whole_args.running_mean = whole_mean.data();
    whole_args.running_variance = whole_variance.data();
    column_statistics(this->stream(), whole_args);
    auto const sums = this->sums(on, kColumnSums);
    this->for_each_rank(on, [&](std::int64_t rank, std::int64_t row, std::int64_t rows) {
      column_sums(
          this->stream(), statistics_args(row, rows), sums.data() + rank * kColumnSums * on.width);
    });
    finish_columns(this->stream(), statistics_args(0, 0), sums.data(), on.ranks());
    expect_within(this->read(statistics), as_doubles(this->read(whole)), 1e-5);
    expect_within(this->read(mean), as_doubles(this->read(whole_mean)), 2e-6);
    expect_within(this->read(variance), as_doubles(this->read(whole_variance)), 2e-6);

    auto const weight = this->upload(this->random.reals(on.width));
    this->expect_norm_gradient(on,
                               {input.data(), weight.data(), whole.data(), gradient.data()},
                               mask_of,
                               workspace.data());
    for (bool const has_one_weight : {false, true}) {
      this->expect_dice_gradient(on,
                                 {input.data(), weight.data(), whole.data(), gradient.data()},
                                 mask_of,
                                 workspace.data(),
                                 has_one_weight);
    }
  }

 private:
  struct Given {
    float const* input;
    float const* weight;
    float const* statistics;
    float const* gradient;
  };
  [[nodiscard]] Buffer<double> sums(RankedRows const& on, std::int64_t count) {
    return this->upload(
        std::vector<double>(static_cast<std::size_t>(on.ranks() * count * on.width), 1e300));
  }
  template <class Visit>
  void for_each_rank(RankedRows const& on, Visit const& visit) {
    std::int64_t row = 0;
    for (std::int64_t rank = 0; rank < on.ranks(); ++rank) {
      auto const rows = on.of_ranks[static_cast<std::size_t>(rank)];
      visit(rank, row, rows);
      row += rows;
    }
  }
  /// Adds up the gradients of parameters of all ranks.
  static void add(std::vector<double>& sum, std::vector<float> const& of_rank) {
    sum.resize(of_rank.size());
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      sum[i] += static_cast<double>(of_rank[i]);
    }
  }

  template <class MaskOf>
  void expect_norm_gradient(RankedRows const& on,
                            Given const& given,
                            MaskOf const& mask_of,
                            void* workspace) {
    auto const args_of = [&](std::int64_t row, std::int64_t rows) {
      return BatchNormGradientArgs{.input = given.input + row * on.width,
                                   .weight = given.weight,
                                   .statistics = given.statistics,
                                   .output_gradient = given.gradient + row * on.width,
                                   .rows = rows,
                                   .width = on.width,
                                   .workspace = workspace,
                                   .input_gradient = nullptr,
                                   .weight_gradient = nullptr,
                                   .bias_gradient = nullptr,
                                   .mask = mask_of(row)};
    };
    auto const weight = this->floats(on.width);
    auto const bias = this->floats(on.width);
    auto const whole = this->floats(on.rows() * on.width);
    auto of_whole = args_of(0, on.rows());
    of_whole.input_gradient = whole.data();
    of_whole.weight_gradient = weight.data();
    of_whole.bias_gradient = bias.data();
    batch_norm_gradient(this->stream(), of_whole);
    auto const expected_weight = this->read(weight);
    auto const expected_bias = this->read(bias);
    auto const sums = this->sums(on, kNormGradientSums);
    std::vector<double> weights;
    std::vector<double> biases;
    this->for_each_rank(on, [&](std::int64_t rank, std::int64_t row, std::int64_t rows) {
      auto args = args_of(row, rows);
      args.weight_gradient = weight.data();
      args.bias_gradient = bias.data();
      batch_norm_gradient_sums(
          this->stream(), args, sums.data() + rank * kNormGradientSums * on.width);
      add(weights, this->read(weight));
      add(biases, this->read(bias));
    });
    auto const input = this->floats(on.rows() * on.width);
    this->for_each_rank(on, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
      auto args = args_of(row, rows);
      args.input_gradient = input.data() + row * on.width;
      batch_norm_input_gradient(this->stream(), args, sums.data(), on.ranks());
    });
    expect_within(this->read(input), as_doubles(this->read(whole)), 1e-5);
    expect_within(expected_weight, weights, 1e-5);
    expect_within(expected_bias, biases, 1e-5);
  }

  template <class MaskOf>
  void expect_dice_gradient(RankedRows const& on,
                            Given const& given,
                            MaskOf const& mask_of,
                            void* workspace,
                            bool has_one_weight) {
    auto const args_of = [&](std::int64_t row, std::int64_t rows) {
      return GateGradientArgs{.gate = Gate::dice,
                              .input = given.input + row * on.width,
                              .weight = given.weight,
                              .one_weight = has_one_weight,
                              .statistics = given.statistics,
                              .output_gradient = given.gradient + row * on.width,
                              .rows = rows,
                              .width = on.width,
                              .workspace = workspace,
                              .input_gradient = nullptr,
                              .weight_gradient = nullptr,
                              .mask = mask_of(row)};
    };
    auto const weight = this->floats(has_one_weight ? 1 : on.width);
    auto const whole = this->floats(on.rows() * on.width);
    auto of_whole = args_of(0, on.rows());
    of_whole.input_gradient = whole.data();
    of_whole.weight_gradient = weight.data();
    gate_gradient(this->stream(), of_whole);
    auto const expected_weight = this->read(weight);
    auto const sums = this->sums(on, kGateSums);
    std::vector<double> weights;
    this->for_each_rank(on, [&](std::int64_t rank, std::int64_t row, std::int64_t rows) {
      auto args = args_of(row, rows);
      args.weight_gradient = weight.data();
      gate_gradient_sums(this->stream(), args, sums.data() + rank * kGateSums * on.width);
      add(weights, this->read(weight));
    });
    auto const input = this->floats(on.rows() * on.width);
    this->for_each_rank(on, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
      auto args = args_of(row, rows);
      args.input_gradient = input.data() + row * on.width;
      gate_input_gradient(this->stream(), args, sums.data(), on.ranks());
    });
    expect_within(this->read(input), as_doubles(this->read(whole)), 1e-5);
    expect_within(expected_weight, weights, 1e-5);
  }
};
TYPED_TEST_SUITE(RowsOnRanks, StreamKinds, StreamKindName);

TYPED_TEST(RowsOnRanks, large_numbers_in_rows_that_do_not_count_cost_no_digits) {
  // 1, 2 and 3 count; their variance is 2 / 3.
  double const expected = std::sqrt(1.5);
  std::vector<float> const input{1e12F, 1, 2, 1e12F, 3};
  std::vector<float> const marks{0, 1, 1, 0, 1};
  for (auto const& of_ranks : {std::vector<std::int64_t>{5}, {1, 4}, {2, 3}, {3, 2}, {3, 1, 1}}) {
    this->expect_reciprocals(input, marks, of_ranks, expected);
  }
}

TYPED_TEST(RowsOnRanks, halves_of_kernels_give_the_results_of_the_whole) {
  for (auto const& on : kRankedRows) {
    for (bool const is_masked : {false, true}) {
      SCOPED_TRACE(fmt::format(
          "{} rows x {} on {} ranks, masked: {}", on.rows(), on.width, on.ranks(), is_masked));
      this->expect_as_whole(on, is_masked);
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
