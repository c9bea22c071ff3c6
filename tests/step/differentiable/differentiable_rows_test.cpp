// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/base/dtype.hpp>

#include <cmath>

namespace msstream::testing {
namespace {

template <class R>
class DifferentiableRowsTest : public GradientTest<R> {
 protected:
  /// Compares gather_rows() of a table of 16-bit elements with that of a float32 table of the same
  /// numbers, their rows as well as their row gradients.
  template <Element T, ops::IdElement I>
  void expect_rows_of_halves(std::vector<T> const& elements,
                             Tensor<I, R> const& ids,
                             Shape const& shape) {
    auto const doubles = to_doubles(elements);
    auto const halves = this->put(elements, {6, 3});
    auto const floats = this->put(Floats(doubles.begin(), doubles.end()), {6, 3});
    auto const of_halves = ops::gather_rows(no_tape, halves, ids);
    EXPECT_EQ(of_halves.shape(), shape);
    EXPECT_EQ(to_host(of_halves), to_host(ops::gather_rows(no_tape, floats, ids)));
    GradientTape<R> tape(this->device());
    auto const squares = [&](auto const& table) {
      return ops::sum(tape, ops::square(tape, ops::gather_rows(tape, table, ids)));
    };
    tape.backward(ops::add(tape, squares(halves), squares(floats)));
    auto const expected = tape.row_gradient_sum(floats)->rows;
    auto const gradient = tape.row_gradient_sum(halves)->rows;
    auto const count = to_host(gradient.count)[0];
    EXPECT_EQ(count, to_host(expected.count)[0]);
    EXPECT_EQ(to_host(gradient.ids.rows(0, count)), to_host(expected.ids.rows(0, count)));
    EXPECT_EQ(to_host(gradient.values.rows(0, count)), to_host(expected.values.rows(0, count)));
  }
};
TYPED_TEST_SUITE(DifferentiableRowsTest, Runtimes, RuntimeNames);

/// Returns the rows of a matrix with three columns; a row of zeros for a number outside.
Doubles rows_of(Doubles const& table, Integers const& numbers) {
  Doubles out;
  for (auto const row : numbers) {
    for (std::int64_t c = 0; c < 3; ++c) {
      bool const exists = row >= 0 && row < std::ssize(table) / 3;
      out.push_back(exists ? table[static_cast<std::size_t>(row * 3 + c)] : 0.0);
    }
  }
  return out;
}

TYPED_TEST(DifferentiableRowsTest, gather_rows_with_repeated_and_bad_ids) {
  Integers const ids{4, 0, 4, -1, 2, 9, 4, 0};
  this->expect_gradient(
      {5, 3},
      [&](auto& tape, auto const& x) { return ops::gather_rows(tape, x, this->put(ids)); },
      [&](Doubles const& x) { return rows_of(x, ids); });
  this->expect_gradient(
      {5, 3},
      [&](auto& tape, auto const& x) {
        std::vector<std::int32_t> const narrow(ids.begin(), ids.end());
        return ops::gather_rows(tape, x, this->put(narrow, {2, 4}));
      },
      [&](Doubles const& x) { return rows_of(x, ids); });
}

TYPED_TEST(DifferentiableRowsTest, gather_rows_of_a_recorded_result) {
  Integers const ids{1, 1, 0};
  this->expect_gradient(
      {2, 3},
      [&](auto& tape, auto const& x) {
        return ops::gather_rows(tape, ops::scale(tape, x, 2.0F), this->put(ids));
      },
      [&](Doubles x) {
        for (auto& value : x) {
          value *= 2;
        }
        return rows_of(x, ids);
      });
}

TYPED_TEST(DifferentiableRowsTest, gather_rows_gives_row_gradients_up_to_the_count) {
  auto const table = this->random_tensor({6, 3});
  auto const ids = this->put(Integers{5, 1, 5, 2});
  GradientTape tape(this->device());
  auto const rows = ops::gather_rows(tape, table, ids, this->scalar(3));
  tape.backward(ops::sum(tape, rows.rows(0, 3)));
  EXPECT_EQ(tape.row_gradients(table).size(), 1U);
  EXPECT_EQ(to_host(tape.gradient(table)),
            (Floats{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2}));
}

TYPED_TEST(DifferentiableRowsTest, gather_rows_of_halves_gives_floats_and_their_gradients) {
  auto const values = this->random.reals(18);
  auto const expect_of = [&]<Element T>(T) {
    std::vector<T> elements;
    for (auto const value : values) {
      elements.push_back(from_float<T>(value));
    }
    this->expect_rows_of_halves(elements, this->put(Integers{5, 1, -1, 5, 6, 0}), {6, 3});
    this->expect_rows_of_halves(
        elements, this->put(std::vector<std::int32_t>{2, 2, 2, 4}, {2, 2}), {2, 2, 3});
    this->expect_rows_of_halves(elements, this->put(Integers{}), {0, 3});
  };
  expect_of(float16{});
  expect_of(bfloat16{});
}

TYPED_TEST(DifferentiableRowsTest, gather_rows_of_halves_up_to_the_count) {
  auto const table = this->put(std::vector<bfloat16>(18, from_float<bfloat16>(2.0F)), {6, 3});
  auto const ids = this->put(Integers{5, 1, 5, 2});
  GradientTape tape(this->device());
  auto const rows = ops::gather_rows(tape, table, ids, this->scalar(3));
  tape.backward(ops::sum(tape, rows.rows(0, 3)));
  auto const gradient = tape.row_gradient_sum(table)->rows;
  EXPECT_EQ(to_host(gradient.count)[0], 2);
  EXPECT_EQ(to_host(gradient.ids.rows(0, 2)), (Integers{1, 5}));
  EXPECT_EQ(to_host(gradient.values.rows(0, 2)), (Floats{1, 1, 1, 2, 2, 2}));
}

TYPED_TEST(DifferentiableRowsTest, gather_rows_refuses_what_is_no_table_of_numbers) {
  auto const ids = this->put(Integers{0});
  GradientTape tape(this->device());
  expect_refused(
      [&] {
        (void)ops::gather_rows(tape, this->put(Integers{1}, {1, 1}), ids);
      },
      "gather_rows: a table of int64");
  expect_refused([&] { (void)ops::gather_rows(no_tape, this->template any<float16>({3}), ids); },
                 "gather_rows",
                 "[3]");
  expect_refused(
      [&] {
        (void)ops::gather_rows(
            no_tape, this->template any<float16>({3, 1}), ids, this->put(Integers{1, 1}));
      },
      "gather_rows",
      "[2]");
}

TYPED_TEST(DifferentiableRowsTest, scatter_rows_whose_last_occurrence_counts) {
  Integers const ids{2, 0, 2, 7};
  this->expect_gradient(
      {4, 3},
      [&](auto& tape, auto const& x) { return ops::scatter_rows(tape, x, this->put(ids), 4); },
      [&](Doubles const& x) {
        return rows_of(x, {1, -1, 2, -1});
      });
}

TYPED_TEST(DifferentiableRowsTest, jagged_to_dense_and_back) {
  Integers const offsets{0, 2, 2, 5};
  this->expect_gradient(
      {6, 3},
      [&](auto& tape, auto const& x) {
        return ops::jagged_to_dense(tape, x, this->put(offsets), 2, 0.5F);
      },
      [&](Doubles const& x) {
        auto out = rows_of(x, {0, 1, -1, -1, 2, 3});
        std::fill(out.begin() + 6, out.begin() + 12, 0.5);
        return out;
      });
  this->expect_gradient(
      {6, 3},
      [&](auto& tape, auto const& x) {
        return ops::dense_to_jagged(tape, x.reshaped({3, 2, 3}), this->put(offsets), 6);
      },
      [&](Doubles const& x) {
        return rows_of(x, {0, 1, 4, 5, -1, -1});
      });
}

TYPED_TEST(DifferentiableRowsTest, repeat_rows_of_samples_that_may_be_empty) {
  Integers const offsets{1, 3, 3, 7};
  this->expect_gradient(
      {3, 3},
      [&](auto& tape, auto const& x) { return ops::repeat_rows(tape, x, this->put(offsets), 9); },
      [&](Doubles const& x) {
        return rows_of(x, {-1, 0, 0, 2, 2, 2, 2, -1, -1});
      });
  this->expect_gradient(
      {3},
      [&](auto& tape, auto const& x) { return ops::repeat_rows(tape, x, this->put(offsets), 7); },
      [&](Doubles const& x) {
        return Doubles{0, x[0], x[0], x[2], x[2], x[2], x[2]};
      });
}

TYPED_TEST(DifferentiableRowsTest, repeat_rows_of_no_samples) {
  auto const none = this->any({0, 3});
  GradientTape tape(this->device());
  tape.backward(ops::sum(tape, ops::repeat_rows(tape, none, this->put(Integers{0}), 4)));
  EXPECT_EQ(tape.gradient(none).shape(), (Shape{0, 3}));
}

TYPED_TEST(DifferentiableRowsTest, jagged_softmax) {
  Integers const offsets{0, 2, 2, 5};
  this->expect_gradient(
      {5},
      [&](auto& tape, auto const& x) { return ops::jagged_softmax(tape, x, this->put(offsets)); },
      [&](Doubles const& x) {
        Doubles out(x.size());
        for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
          double sum = 0;
          for (auto i = offsets[s]; i < offsets[s + 1]; ++i) {
            sum += std::exp(x[static_cast<std::size_t>(i)]);
          }
          for (auto i = offsets[s]; i < offsets[s + 1]; ++i) {
            out[static_cast<std::size_t>(i)] = std::exp(x[static_cast<std::size_t>(i)]) / sum;
          }
        }
        return out;
      });
}

TYPED_TEST(DifferentiableRowsTest, top_k) {
  Floats const values{0.1F, 0.9F, 0.5F, -0.3F, 0.7F, 0.2F, -0.8F, 0.4F};
  this->expect_gradient(
      values,
      {2, 4},
      [](auto& tape, auto const& x) { return ops::top_k(tape, x, 2).values; },
      [](Doubles const& x) {
        return Doubles{x[1], x[2], x[4], x[7]};
      });
}

TYPED_TEST(DifferentiableRowsTest, segments_by_ids) {
  Integers const ids{2, 0, 2, 1, 9};
  this->expect_gradient(
      {5, 3},
      [&](auto& tape, auto const& x) {
        return ops::segment_reduce(tape, x, {this->put(ids), 3}, ops::SegmentReduction::sum);
      },
      [&](Doubles const& x) {
        auto out = rows_of(x, {1, 3, 0});
        for (std::size_t c = 0; c < 3; ++c) {
          out[6 + c] += x[6 + c];
        }
        return out;
      });
}

TYPED_TEST(DifferentiableRowsTest, split_whose_blocks_are_used_or_not) {
  auto const columns = [](Doubles const& x, std::size_t begin, std::size_t end) {
    Doubles out;
    for (std::size_t row = 0; row < 3; ++row) {
      out.insert(out.end(), x.data() + row * 6 + begin, x.data() + row * 6 + end);
    }
    return out;
  };
  auto const split = [](auto& tape, auto const& x) { return ops::split(tape, x, {1, 3, 2}); };
  this->expect_gradient(
      {3, 6},
      [&](auto& tape, auto const& x) { return split(tape, x)[1]; },
      [&](Doubles const& x) { return columns(x, 1, 4); });
  this->expect_gradient(
      {3, 6},
      [&](auto& tape, auto const& x) {
        auto const blocks = split(tape, x);
        return ops::concat(tape, {blocks[2], blocks[0], blocks[1]});
      },
      [&](Doubles const& x) {
        Doubles out;
        for (std::size_t row = 0; row < 3; ++row) {
          for (std::size_t const c : {4, 5, 0, 1, 2, 3}) {
            out.push_back(x[row * 6 + c]);
          }
        }
        return out;
      });
  auto const x = this->random_tensor({3, 6});
  auto const blocks = split(no_tape, x);
  GradientTape tape(this->device());
  auto const recorded = split(tape, x);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(blocks[k].shape(), recorded[k].shape());
    EXPECT_EQ(to_host(blocks[k]), to_host(recorded[k]));
  }
  expect_refused([&] { (void)ops::split(tape, x, {1, 3}); }, "split", "4", "[3, 6]");
  expect_refused([&] { (void)ops::split(tape, x, {7}); }, "split", "[3, 6]");
}

}  // namespace
}  // namespace msstream::testing
