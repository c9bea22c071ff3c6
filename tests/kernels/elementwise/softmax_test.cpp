// SPDX-License-Identifier: Apache-2.0
#include "elementwise/softmax.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

/// Numbers of columns around those from which a row takes other threads: lanes, a warp or a block,
/// whose rows begin at multiples of 16 bytes or anywhere, and a block that reads it several times.
constexpr std::int64_t kColumns[] = {1,    2,    5,    32,   33,   64,   65,   68,   100,  200,
                                     255,  257,  300,  511,  512,  513,  516,  1000, 1023, 1024,
                                     1025, 1028, 5000, 6013, 6015, 8191, 8192, 8193};

/// Returns the softmax of the first `length` columns of each row, in double.
std::vector<double> softmax_of(std::vector<float> const& values,
                               std::int64_t columns,
                               std::vector<std::int64_t> const& lengths) {
  std::vector<double> out(values.size(), 0.0);
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    auto const first = row * static_cast<std::size_t>(columns);
    auto const last =
        first + static_cast<std::size_t>(std::clamp<std::int64_t>(lengths[row], 0, columns));
    double sum = 0;
    for (auto i = first; i < last; ++i) {
      sum += std::exp(double{values[i]});
    }
    for (auto i = first; i < last; ++i) {
      out[i] = std::exp(double{values[i]}) / sum;
    }
  }
  return out;
}

template <class Stream>
class SoftmaxTest : public KernelTest<Stream> {
 protected:
  std::vector<float> outputs(std::vector<float> const& values, std::int64_t columns) {
    auto const rows = static_cast<std::int64_t>(values.size()) / columns;
    auto const input = this->upload(values);
    auto const output = this->floats(rows * columns);
    softmax(this->stream(), {input.data(), output.data(), rows, columns});
    return this->read(output);
  }
};
TYPED_TEST_SUITE(SoftmaxTest, StreamKinds, StreamKindName);

TYPED_TEST(SoftmaxTest, agrees_with_double_for_rows_of_any_length_also_in_place) {
  for (auto const columns : kColumns) {
    for (std::int64_t const rows : {0, 1, 67}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, columns));
      auto const values = this->random.reals(rows * columns, -5.0F, 5.0F);
      auto const expected = softmax_of(
          values, columns, std::vector<std::int64_t>(static_cast<std::size_t>(rows), columns));
      auto const input = this->upload(values);
      auto const output = this->floats(rows * columns);
      softmax(this->stream(), {input.data(), output.data(), rows, columns});
      expect_within(this->read(output), expected);
      softmax(this->stream(), {input.data(), input.data(), rows, columns});
      expect_within(this->read(input), expected);
    }
  }
}

TYPED_TEST(SoftmaxTest, columns_beyond_a_rows_length_get_nothing_and_give_nothing) {
  for (auto const columns : kColumns) {
    for (std::int64_t const rows_a_length : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} columns, {} rows a length", columns, rows_a_length));
      constexpr std::int64_t kRows = 21;
      auto lengths = this->random.integers(kRows / rows_a_length, 0, columns);
      lengths[0] = -1;
      lengths[1] = columns + 1;
      lengths[2] = 0;
      auto values = this->random.reals(kRows * columns, -5.0F, 5.0F);
      std::vector<std::int64_t> of_rows;
      for (std::size_t row = 0; row < kRows; ++row) {
        of_rows.push_back(lengths[row / static_cast<std::size_t>(rows_a_length)]);
        for (auto c = std::max<std::int64_t>(of_rows.back(), 0); c < columns; ++c) {
          values[row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)] =
              std::nanf("");
        }
      }
      auto const input = this->upload(values);
      auto const lengths_in = this->upload(lengths);
      auto const output = this->floats(kRows * columns);
      softmax(this->stream(),
              {input.data(), output.data(), kRows, columns, lengths_in.data(), rows_a_length});
      expect_within(this->read(output), softmax_of(values, columns, of_rows));
    }
  }
}

TYPED_TEST(SoftmaxTest, neither_overflows_nor_hides_what_is_not_a_number) {
  auto const infinity = std::numeric_limits<float>::infinity();
  expect_within(this->outputs({1e4F, 1e4F, -1e4F, -infinity}, 4), {0.5, 0.5, 0, 0});
  for (std::int64_t const columns : {40, 3000}) {
    std::vector<float> values(2 * static_cast<std::size_t>(columns), 0.0F);
    values[static_cast<std::size_t>(columns) - 1] = std::nanf("");
    std::vector<double> expected(values.size(), 1.0 / static_cast<double>(columns));
    std::fill_n(expected.begin(), columns, std::nan(""));
    expect_within(this->outputs(values, columns), expected);
  }
}

TYPED_TEST(SoftmaxTest, gradient_agrees_with_double_and_is_zero_where_the_output_is) {
  for (auto const columns : kColumns) {
    for (std::int64_t const rows : {0, 1, 35}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, columns));
      // Makes rows that add up to about 2, of the order of a softmax's sum.
      auto outputs = this->random.reals(rows * columns, 0.0F, 4.0F / static_cast<float>(columns));
      auto gradients = this->random.reals(rows * columns);
      for (std::size_t i = 0; i < outputs.size(); i += 3) {
        outputs[i] = 0.0F;
        gradients[i] = std::nanf("");
      }
      std::vector<double> expected(outputs.size(), 0.0);
      for (std::int64_t row = 0; row < rows; ++row) {
        auto const first = static_cast<std::size_t>(row * columns);
        auto const last = first + static_cast<std::size_t>(columns);
        double total = 0;
        for (auto i = first; i < last; ++i) {
          total += i % 3 == 0 ? 0 : double{outputs[i]} * gradients[i];
        }
        for (auto i = first; i < last; ++i) {
          expected[i] = i % 3 == 0 ? 0 : outputs[i] * (gradients[i] - total);
        }
      }
      auto const output = this->upload(outputs);
      auto const output_gradient = this->upload(gradients);
      auto const gradient = this->floats(rows * columns);
      softmax_gradient(this->stream(),
                       {output.data(), output_gradient.data(), gradient.data(), rows, columns});
      expect_within(this->read(gradient), expected);
    }
  }
}

TYPED_TEST(SoftmaxTest, cross_entropy_agrees_with_double_and_leaves_bad_classes_out) {
  for (auto const columns : kColumns) {
    for (std::int64_t const rows : {0, 1, 67}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, columns));
      auto const values = this->random.reals(rows * columns, -5.0F, 5.0F);
      auto const classes = this->random.integers(rows, -1, columns);
      auto gradients = softmax_of(
          values, columns, std::vector<std::int64_t>(static_cast<std::size_t>(rows), columns));
      std::vector<double> losses;
      std::uint64_t bad = 0;
      for (std::size_t row = 0; row < classes.size(); ++row) {
        auto const first = row * static_cast<std::size_t>(columns);
        if (classes[row] < 0 || classes[row] >= columns) {
          ++bad;
          losses.push_back(0);
          std::fill_n(gradients.begin() + static_cast<std::ptrdiff_t>(first), columns, 0.0);
        } else {
          auto& of_class = gradients[first + static_cast<std::size_t>(classes[row])];
          losses.push_back(-std::log(of_class));
          of_class -= 1;
        }
      }
      auto const logits = this->upload(values);
      auto const classes_in = this->upload(classes);
      auto const losses_out = this->floats(rows);
      auto const gradients_out = this->floats(rows * columns);
      auto const counter = this->upload(std::vector<std::uint64_t>{100});
      softmax_cross_entropy(this->stream(),
                            {logits.data(),
                             classes_in.data(),
                             losses_out.data(),
                             gradients_out.data(),
                             rows,
                             columns,
                             {.count = counter.data()}});
      expect_within(this->read(losses_out), losses, 2e-6);
      expect_within(this->read(gradients_out), gradients, 2e-6);
      EXPECT_EQ(this->read(counter).front(), 100 + bad);
    }
  }
}

TYPED_TEST(SoftmaxTest, weighted_cross_entropy_leaves_out_accidental_hits) {
  for (auto const columns : kColumns) {
    constexpr std::int64_t kRows = 67;
    SCOPED_TRACE(fmt::format("rows of {}", columns));
    auto values = this->random.reals(kRows * columns, -5.0F, 5.0F);
    auto classes = this->random.integers(kRows, -1, columns);
    classes[7] = std::int64_t{1} << 40;  // no id of a candidate may be read for it
    auto const ids = this->random.integers(columns, 0, columns / 2);
    auto weights = this->random.reals(kRows, 0.0F, 2.0F);
    std::vector<double> gradients(values.size(), 0.0);
    std::vector<double> losses(kRows, 0.0);
    std::vector<double> counted(kRows, 0.0);
    std::uint64_t bad = 0;
    for (std::size_t row = 0; row < classes.size(); ++row) {
      weights[row] = row % 5 == 3 ? 0.0F : weights[row];
      bool const is_bad = classes[row] < 0 || classes[row] >= columns;
      bool const is_left_out = weights[row] == 0.0F || is_bad;
      bad += is_bad && weights[row] != 0.0F ? 1 : 0;
      counted[row] = weights[row];
      auto const chosen = is_bad ? 0 : static_cast<std::size_t>(classes[row]);
      auto const first = row * static_cast<std::size_t>(columns);
      double sum = 0;
      for (std::size_t c = 0; c < ids.size(); ++c) {
        if (is_left_out || (c != chosen && ids[c] == ids[chosen])) {
          values[first + c] = std::nanf("");
        } else {
          gradients[first + c] = std::exp(double{values[first + c]});
          sum += gradients[first + c];
        }
      }
      if (!is_left_out) {
        losses[row] = weights[row] * (std::log(sum) - values[first + chosen]);
        for (std::size_t c = 0; c < ids.size(); ++c) {
          gradients[first + c] =
              weights[row] * (gradients[first + c] / sum - (c == chosen ? 1.0 : 0.0));
        }
      }
    }
    auto const logits = this->upload(values);
    auto const classes_in = this->upload(classes);
    auto const weights_in = this->upload(weights);
    auto const ids_in = this->upload(ids);
    auto const losses_out = this->floats(kRows);
    auto const gradients_out = this->floats(kRows * columns);
    auto const counted_out = this->floats(kRows);
    auto const counter = this->upload(std::vector<std::uint64_t>{100});
    softmax_cross_entropy(this->stream(),
                          {.logits = logits.data(),
                           .classes = classes_in.data(),
                           .losses = losses_out.data(),
                           .gradients = gradients_out.data(),
                           .rows = kRows,
                           .columns = columns,
                           .report = {.count = counter.data()},
                           .counted = counted_out.data(),
                           .counts_weights = true,
                           .weights = weights_in.data(),
                           .candidates = ids_in.data()});
    expect_within(this->read(losses_out), losses, 5e-6);
    expect_within(this->read(gradients_out), gradients, 5e-6);
    expect_within(this->read(counted_out), counted);
    EXPECT_EQ(this->read(counter).front(), 100 + bad);
  }
}

TYPED_TEST(SoftmaxTest, cross_entropy_of_extreme_logits_is_finite) {
  auto const logits = this->upload(std::vector{1e4F, -1e4F, 0.0F, 1e4F, -1e4F, 0.0F});
  auto const classes = this->upload(std::vector<std::int64_t>{0, 1});
  auto const losses = this->floats(2);
  auto const gradients = this->floats(6);
  softmax_cross_entropy(this->stream(),
                        {logits.data(), classes.data(), losses.data(), gradients.data(), 2, 3, {}});
  expect_within(this->read(losses), {0, 2e4});
  expect_within(this->read(gradients), {0, 0, 0, 1, -1, 0});
}

TYPED_TEST(SoftmaxTest, a_bad_class_springs_the_trap_once) {
  auto const trap = this->pinned(IdTrap{});
  IdReport const report{nullptr, trap.data(), 5};
  for (std::int64_t const columns : {3, 2000}) {
    *trap.data() = IdTrap{};
    auto const logits = this->upload(this->random.reals(40 * columns));
    auto const losses = this->floats(40);
    auto const gradients = this->floats(40 * columns);
    auto const issue = [&](std::vector<std::int64_t> const& classes) {
      auto const classes_in = this->upload(classes);
      softmax_cross_entropy(
          this->stream(),
          {logits.data(), classes_in.data(), losses.data(), gradients.data(), 40, columns, report});
      this->synchronise();
    };
    auto classes = this->random.integers(40, 0, columns - 1);
    issue(classes);
    EXPECT_EQ(trap.data()->set, 0U) << "no class was bad";
    classes[33] = columns;
    issue(classes);
    EXPECT_EQ(trap.data()->set, 1U);
    EXPECT_EQ(trap.data()->operation, 5U);
    EXPECT_EQ(trap.data()->caught.id, columns);
    EXPECT_EQ(trap.data()->caught.rows, columns);
    classes[33] = -1;
    issue(classes);
    EXPECT_EQ(trap.data()->caught.id, columns) << "a sprung trap is not written again";
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
