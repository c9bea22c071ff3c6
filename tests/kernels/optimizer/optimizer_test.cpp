// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_fixture.hpp"
#include "kernels/optimizer/optimizer_reference.hpp"

#include <msstream/base/format.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace msstream::ops::kernels::testing {
namespace {

/// Returns whether a weight is as close to its expected value as rounding allows. When momentum has
/// cancelled out, the rounding errors of its up to five terms remain: ten of half a unit in the
/// last place of numbers below 4.1.
bool is_close(double actual, double expected) {
  return std::abs(actual - expected) <= 1e-5 * std::abs(expected) + 10 * 4.1 * 0x1p-24;
}

/// Returns whether `stored` is `expected` rounded to the nearest value of type T, that is, differs
/// by at most half a unit in the last place.
template <class T>
bool is_rounded(T stored, double expected) {
  if constexpr (std::is_same_v<T, float>) {
    return is_close(stored, expected);
  }
  double const half_unit = std::is_same_v<T, float16> ? 0x1p-11 : 0x1p-8;
  double const subnormal_half_unit = 0x1p-25;
  double const float_error = 1e-8;
  return std::abs(to_float(stored) - expected) <=
         half_unit * std::abs(expected) * 1.001 + subnormal_half_unit + float_error;
}

/// A table of random weights of some type, with optimizer state, and gradients of some of its rows.
struct SomeTable {
  DType dtype;
  std::int64_t width;
  std::int64_t capacity;
  std::int64_t offset;  ///< elements before the first row
  std::vector<std::uint8_t> start;
  Buffer<std::uint8_t> weights;
  Buffer<float> state0;
  Buffer<float> state1;
  Buffer<float> gradients;
  Buffer<std::int64_t> ids;
  Buffer<std::int64_t> count;

  [[nodiscard]] RowUpdate update(OptimizerKind kind) const {
    return {.table = weights.data() + offset * static_cast<std::int64_t>(bytes_of(dtype)),
            .dtype = dtype,
            .width = width,
            .row_ids = ids.data(),
            .row_count = count.data(),
            .capacity = capacity,
            .gradients = gradients.data(),
            .state0 = has_first(kind) ? state0.data() : nullptr,
            .state1 = has_second(kind) ? state1.data() : nullptr};
  }
};

template <class Stream>
class OptimizerTest : public KernelTest<Stream> {
 protected:
  Buffer<StepState> new_step() { return this->upload(std::vector{StepState{}}); }

  SomeTable some_table(DType dtype,
                       std::int64_t width,
                       std::int64_t capacity,
                       std::int64_t offset) {
    auto const rows = capacity + 3;
    auto const elements = rows * width + offset;
    std::vector<std::uint8_t> start(static_cast<std::size_t>(elements) * bytes_of(dtype));
    for (std::int64_t i = 0; i < elements; ++i) {
      auto* const place = start.data() + static_cast<std::size_t>(i) * bytes_of(dtype);
      auto const put = [&](auto value) { std::memcpy(place, &value, sizeof value); };
      auto const value = this->random.real(1.0F, 2.0F);
      dtype == DType::float32   ? put(value)
      : dtype == DType::float16 ? put(from_float<float16>(value))
                                : put(from_float<bfloat16>(value));
    }
    std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(this->random.seed()));
    ids.resize(static_cast<std::size_t>(capacity));  // ids beyond the count are valid, too
    return {dtype,
            width,
            capacity,
            offset,
            start,
            this->upload(start),
            this->upload(this->random.reals(rows * width, 0.1F, 1.0F)),
            this->upload(this->random.reals(rows * width, 0.1F, 1.0F)),
            this->upload(this->random.reals(capacity * width, 20.0F, 30.0F)),
            this->upload(ids),
            this->scalar(this->random.integer(0, capacity))};
  }
  /// Returns a copy of a table with its own memory for everything that an update writes.
  SomeTable copy_of(SomeTable const& table) {
    auto copy = table;
    copy.weights = this->upload(table.start);
    copy.state0 = this->upload(this->read(table.state0));
    copy.state1 = this->upload(this->read(table.state1));
    return copy;
  }

  /// Updates some rows of [rows, width] weights of type T with their state, and compares all rows.
  template <class T>
  void check_rows(OptimizerRule const& rule,
                  std::int64_t rows,
                  std::int64_t width,
                  std::int64_t capacity,
                  std::int64_t row_count) {
    SCOPED_TRACE(fmt::format("kind {}, {}, width {}, {} rows of {}",
                             static_cast<int>(OptimizerKind{rule.kind}),
                             dtype_of<T>,
                             width,
                             row_count,
                             capacity));
    std::vector<T> table(static_cast<std::size_t>(rows * width));
    std::generate(table.begin(), table.end(), [&] { return from_float<T>(this->random.real()); });
    auto const state0 = this->random.reals(rows * width, 0.1F, 1.0F);
    auto const state1 = this->random.reals(rows * width, 0.1F, 1.0F);
    auto gradients = this->random.reals(capacity * width);
    std::fill(gradients.begin() + row_count * width, gradients.end(), std::nanf(""));
    std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(this->random.seed()));
    ids.resize(static_cast<std::size_t>(capacity));  // ids beyond row_count are valid, too

    auto const step = new_step();
    auto const table_out = this->upload(table);
    auto const state0_out = this->upload(state0);
    auto const state1_out = this->upload(state1);
    auto const gradients_in = this->upload(gradients);
    auto const ids_in = this->upload(ids);
    auto const count_in = this->scalar(row_count);
    advance_step(this->stream(), rule, step.data());
    std::vector const updates{
        RowUpdate{.table = table_out.data(),
                  .dtype = dtype_of<T>,
                  .width = width,
                  .row_ids = ids_in.data(),
                  .row_count = count_in.data(),
                  .capacity = capacity,
                  .gradients = gradients_in.data(),
                  .state0 = rule.kind == OptimizerKind::sgd ? nullptr : state0_out.data(),
                  .state1 = rule.kind == OptimizerKind::adam ? state1_out.data() : nullptr}};
    update_rows(this->stream(), rule, step.data(), updates);

    auto const moved = this->read(table_out);
    auto const moved0 = this->read(state0_out);
    auto const moved1 = this->read(state1_out);
    std::vector<std::int64_t> gradient_row(static_cast<std::size_t>(rows), -1);
    for (std::int64_t u = 0; u < row_count; ++u) {
      gradient_row[static_cast<std::size_t>(ids[static_cast<std::size_t>(u)])] = u;
    }
    for (std::size_t i = 0; i < moved.size(); ++i) {
      auto const column = static_cast<std::int64_t>(i) % width;
      auto const u = gradient_row[i / static_cast<std::size_t>(width)];
      if (u < 0) {
        ASSERT_EQ(to_float(moved[i]), to_float(table[i])) << "a row without gradient moved";
        ASSERT_EQ(moved0[i], state0[i]);
        ASSERT_EQ(moved1[i], state1[i]);
        continue;
      }
      ReferenceWeight reference{to_float(table[i]), state0[i], state1[i]};
      reference.move(rule, gradients[static_cast<std::size_t>(u * width + column)], 1);
      ASSERT_TRUE(is_rounded(moved[i], reference.weight))
          << "weight " << i << " is " << to_float(moved[i]) << ", not " << reference.weight;
      ASSERT_TRUE(is_close(moved0[i], reference.first)) << "state0 of weight " << i;
      ASSERT_TRUE(is_close(moved1[i], reference.second)) << "state1 of weight " << i;
    }
  }
};
TYPED_TEST_SUITE(OptimizerTest, StreamKinds, StreamKindName);

TYPED_TEST(OptimizerTest, the_step_counts_and_brings_the_corrections_of_adam) {
  auto const rule = rule_of(OptimizerKind::adam);
  auto const state = this->new_step();
  for (int t = 1; t <= 5; ++t) {
    advance_step(this->stream(), rule, state.data());
    auto const now = this->read(state).front();
    EXPECT_EQ(now.step, t);
    EXPECT_FLOAT_EQ(now.correction1,
                    static_cast<float>(1 / (1 - std::pow(static_cast<double>(rule.beta1), t))));
    EXPECT_FLOAT_EQ(now.correction2,
                    static_cast<float>(1 / (1 - std::pow(static_cast<double>(rule.beta2), t))));
  }
  this->replay([&](auto stream) { advance_step(stream, rule, state.data()); });
  EXPECT_EQ(this->read(state).front().step, 6);
}

TYPED_TEST(OptimizerTest, tensors_move_by_the_rule_over_five_steps) {
  for (auto const kind : kOptimizerKinds) {
    for (int const tensor_count : {0, 1, 48, 49, 100}) {
      SCOPED_TRACE(fmt::format("kind {}, {} tensors", static_cast<int>(kind), tensor_count));
      auto const rule = rule_of(kind);
      // The tensors are placed one after the other with gaps of up to four floats, so that some are
      // aligned to 16 bytes and some are not.
      std::vector<std::int64_t> firsts;
      std::vector<std::int64_t> counts;
      std::int64_t total = 0;
      for (int k = 0; k < tensor_count; ++k) {
        firsts.push_back(total);
        counts.push_back(k == 0 ? 5000 : this->random.integer(0, 40));
        total += counts.back();
        total += k % 2 == 0 ? 4 - total % 4 : this->random.integer(0, 4);
      }
      std::vector<bool> is_in_tensor(static_cast<std::size_t>(total), false);
      for (std::size_t k = 0; k < firsts.size(); ++k) {
        std::fill_n(is_in_tensor.begin() + firsts[k], counts[k], true);
      }
      auto const start = this->random.reals(total);
      std::vector<ReferenceWeight> expected;
      for (float const weight : start) {
        expected.push_back({weight, 0.0, 0.0});
      }
      auto const weights = this->upload(start);
      auto const state0 = this->upload(std::vector<float>(start.size(), 0.0F));
      auto const state1 = this->upload(std::vector<float>(start.size(), 0.0F));
      auto const step = this->new_step();
      for (int t = 1; t <= 5; ++t) {
        auto const gradient_values = this->random.reals(total);
        auto const gradients = this->upload(gradient_values);
        std::vector<DenseUpdate> updates;
        for (std::size_t k = 0; k < firsts.size(); ++k) {
          auto const first = firsts[k];
          updates.push_back({weights.data() + first,
                             gradients.data() + first,
                             kind == OptimizerKind::sgd ? nullptr : state0.data() + first,
                             kind == OptimizerKind::adam ? state1.data() + first : nullptr,
                             counts[k]});
        }
        advance_step(this->stream(), rule, step.data());
        update_dense(this->stream(), rule, step.data(), updates);
        updates.clear();  // the call must have copied the descriptions of the updates
        this->synchronise();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (is_in_tensor[i]) {
            expected[i].move(rule, gradient_values[i], t);
          }
        }
      }
      auto const moved = this->read(weights);
      auto const moved0 = this->read(state0);
      auto const moved1 = this->read(state1);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(is_close(moved[i], expected[i].weight))
            << "weight " << i << " is " << moved[i] << ", not " << expected[i].weight;
        ASSERT_TRUE(is_close(moved0[i], expected[i].first)) << "state0 of weight " << i;
        ASSERT_TRUE(is_close(moved1[i], expected[i].second)) << "state1 of weight " << i;
        if (!is_in_tensor[i]) {
          ASSERT_EQ(moved[i], start[i]) << "a weight between two tensors moved";
        }
      }
    }
  }
}

TYPED_TEST(OptimizerTest, rules_without_corrections_need_no_step) {
  for (auto const kind : {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adagrad}) {
    auto const weight = this->upload(std::vector{1.0F});
    auto const gradient = this->upload(std::vector{2.0F});
    auto const state = this->upload(std::vector{0.0F});
    std::vector const updates{
        DenseUpdate{weight.data(), gradient.data(), state.data(), nullptr, 1}};
    update_dense(this->stream(), rule_of(kind), nullptr, updates);
    ReferenceWeight expected{1.0, 0.0, 0.0};
    expected.move(rule_of(kind), 2.0, 1);
    EXPECT_NEAR(this->read(weight).front(), expected.weight, 1e-6);
  }
}

TYPED_TEST(OptimizerTest, rows_with_a_gradient_move_and_no_others) {
  for (auto const kind : kOptimizerKinds) {
    if (kind == OptimizerKind::rowwise_adagrad) {
      continue;  // row-wise Adagrad keeps another state
    }
    for (std::int64_t const width : {1, 3, 4, 20, 128}) {
      for (std::int64_t const row_count : {0, 13, 20}) {
        this->template check_rows<float>(rule_of(kind), 50, width, 20, row_count);
        this->template check_rows<float16>(rule_of(kind), 50, width, 20, row_count);
        this->template check_rows<bfloat16>(rule_of(kind), 50, width, 20, row_count);
      }
    }
    this->template check_rows<float>(rule_of(kind), 10, 4, 0, 0);
  }
}

TYPED_TEST(OptimizerTest, a_row_with_one_number_of_state_follows_the_rule_in_double) {
  auto const check = [this]<class T>(T, std::int64_t width, std::int64_t offset) {
    SCOPED_TRACE(fmt::format("{}, width {}, offset {}", dtype_of<T>, width, offset));
    constexpr std::int64_t kRows = 700;
    constexpr std::int64_t kCapacity = 600;
    constexpr std::int64_t kCount = 500;
    auto const rule = rule_of(OptimizerKind::rowwise_adagrad);
    auto const elements = static_cast<std::size_t>(offset + kRows * width);
    std::vector<T> weights(elements);
    std::generate(
        weights.begin(), weights.end(), [&] { return from_float<T>(this->random.real()); });
    auto expected_state = std::vector<double>(kRows, 0.0);
    std::vector<std::int64_t> ids(kCapacity);
    std::iota(ids.begin(), ids.end(), 50);
    auto const table = this->upload(weights);
    auto const state = this->upload(std::vector<float>(kRows, 0.0F));
    auto const ids_in = this->upload(ids);
    auto const count = this->scalar(kCount);
    for (int t = 1; t <= 4; ++t) {
      auto const before = this->read(table);
      auto const values = this->random.reals(kCapacity * width);
      auto const gradients = this->upload(values);
      std::vector const updates{RowUpdate{.table = table.data() + offset,
                                          .dtype = dtype_of<T>,
                                          .width = width,
                                          .row_ids = ids_in.data(),
                                          .row_count = count.data(),
                                          .capacity = kCapacity,
                                          .gradients = gradients.data(),
                                          .state0 = state.data(),
                                          .state1 = nullptr}};
      this->replay([&](TypeParam stream) { update_rows(stream, rule, nullptr, updates); });
      auto const moved = this->read(table);
      auto const found_state = this->read(state);
      for (std::int64_t row = 0; row < kRows; ++row) {
        auto const u = row - 50;
        bool const moves = u >= 0 && u < kCount;
        auto& sum = expected_state[static_cast<std::size_t>(row)];
        auto const first = static_cast<std::size_t>(offset + row * width);
        std::vector<ReferenceWeight> expected;
        for (std::int64_t c = 0; c < width; ++c) {
          expected.push_back({to_float(before[first + static_cast<std::size_t>(c)]), sum});
        }
        if (moves) {
          auto const from = values.begin() + u * width;
          std::vector<double> const gradient(from, from + width);
          move_row(expected, rule, gradient, t);
          sum = expected.front().first;
        }
        ASSERT_TRUE(is_close(found_state[static_cast<std::size_t>(row)], sum)) << "row " << row;
        for (std::size_t c = 0; c < expected.size(); ++c) {
          ASSERT_TRUE(is_rounded(moved[first + c], expected[c].weight))
              << "row " << row << " column " << c;
        }
      }
    }
  };
  for (std::int64_t const width : {1, 3, 4, 20, 33, 128, 132, 1024}) {
    for (std::int64_t const offset : {0, 1}) {
      check(float{}, width, offset);
      check(float16{}, width, offset);
      check(bfloat16{}, width, offset);
    }
  }
}

TYPED_TEST(OptimizerTest, more_rows_than_one_grid_holds_are_walked) {
  this->template check_rows<float>(rule_of(OptimizerKind::sgd), 20000, 128, 19000, 17500);
}

TYPED_TEST(OptimizerTest, many_tables_move_as_each_of_them_alone) {
  for (auto const kind : kAllOptimizerKinds) {
    for (int const table_count : {0, 1, 2, 40, 41, 130}) {
      SCOPED_TRACE(fmt::format("kind {}, {} tables", static_cast<int>(kind), table_count));
      auto const rule = rule_of(kind);
      auto const step = this->new_step();
      advance_step(this->stream(), rule, step.data());
      std::vector<SomeTable> together;
      std::vector<SomeTable> alone;
      std::vector<RowUpdate> updates;
      for (int k = 0; k < table_count; ++k) {
        // One table is so large that it takes all blocks of a launch, a third of the tables have
        // half precision, and some are not aligned.
        bool const large = kind == OptimizerKind::sgd && table_count == 2 && k == 0;
        auto const capacity = large ? 17'000 : this->random.integer(0, 30);
        auto const width = this->random.integer(1, 3) * this->random.integer(1, 4);
        auto const dtype = k % 3 != 2                   ? DType::float32
                           : this->random.integer(0, 1) ? DType::float16
                                                        : DType::bfloat16;
        together.push_back(
            this->some_table(dtype, large ? 128 : width, capacity, k % 4 == 3 ? 1 : 0));
        alone.push_back(this->copy_of(together.back()));
        updates.push_back(together.back().update(kind));
      }
      update_rows(this->stream(), rule, step.data(), updates);
      updates.clear();  // the call must have copied the descriptions of the updates
      for (auto const& table : alone) {
        std::vector const one{table.update(kind)};
        update_rows(this->stream(), rule, step.data(), one);
      }
      this->synchronise();
      for (std::size_t k = 0; k < together.size(); ++k) {
        ASSERT_EQ(this->read(together[k].weights), this->read(alone[k].weights)) << "table " << k;
        ASSERT_EQ(this->read(together[k].state0), this->read(alone[k].state0)) << "table " << k;
        ASSERT_EQ(this->read(together[k].state1), this->read(alone[k].state1)) << "table " << k;
        bool const has_rows = this->read(together[k].count).front() > 0;
        ASSERT_EQ(this->read(together[k].weights) != together[k].start, has_rows) << "table " << k;
      }
    }
  }
}

TYPED_TEST(OptimizerTest, a_weight_between_two_half_precision_values_goes_to_the_even_one) {
  auto const check = [this]<class T>(T, float unit) {
    // The last place of 1 has the value `unit`. The gradient raises both weights by half of that
    // value, so that they are rounded to even.
    auto const table = this->upload(std::vector{from_float<T>(1.0F), from_float<T>(1.0F + unit)});
    auto const gradients = this->upload(std::vector{-0.5F * unit, -0.5F * unit});
    auto const ids = this->scalar(0);
    auto const count = this->scalar(1);
    std::vector const updates{RowUpdate{.table = table.data(),
                                        .dtype = dtype_of<T>,
                                        .width = 2,
                                        .row_ids = ids.data(),
                                        .row_count = count.data(),
                                        .capacity = 1,
                                        .gradients = gradients.data(),
                                        .state0 = nullptr,
                                        .state1 = nullptr}};
    update_rows(
        this->stream(), {.kind = OptimizerKind::sgd, .learning_rate = 1.0F}, nullptr, updates);
    auto const moved = this->read(table);
    EXPECT_EQ(to_float(moved[0]), 1.0F);
    EXPECT_EQ(to_float(moved[1]), 1.0F + 2 * unit);
  };
  check(float16{}, 0x1p-10F);
  check(bfloat16{}, 0x1p-7F);
}

TYPED_TEST(OptimizerTest, a_table_of_integers_is_refused) {
  RowUpdate update{};
  update.dtype = DType::int64;
  EXPECT_THROW(update_rows(this->stream(), rule_of(OptimizerKind::sgd), nullptr, {&update, 1}),
               std::invalid_argument);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
