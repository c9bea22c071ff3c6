// SPDX-License-Identifier: Apache-2.0
// Compares updates of tables whose gradients are parts of those of many tables with updates by
// gradients of their own. Both must give the same bits.
#include "kernels/kernel_fixture.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/optimizer_math.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;

/// The gradients of tables of several widths. The columns beyond a table's width are NaN.
struct ManyGradients {
  Integers widths;
  Integers rows;        ///< of each table
  Integers first_rows;  ///< [tables]
  Integers starts;      ///< [tables + 1]
  Integers ids;         ///< first_rows[t] + row
  Floats values;
  std::int64_t stride;

  [[nodiscard]] std::int64_t count(std::size_t t) const { return starts[t + 1] - starts[t]; }
};

template <class Stream>
class OptimizerPartsTest : public KernelTest<Stream> {
 protected:
  ManyGradients gradients_of(Integers const& widths, std::int64_t stride) {
    ManyGradients many{widths, {}, {}, {0}, {}, {}, stride};
    std::int64_t first_row = 0;
    for (std::size_t t = 0; t < widths.size(); ++t) {
      many.rows.push_back(this->random.integer(20, 60));
      many.first_rows.push_back(first_row);
      // The second table has no rows with a gradient, the third one has all.
      auto const count = t == 1 ? 0 : t == 2 ? many.rows[t] : this->random.integer(1, 20);
      Integers rows(static_cast<std::size_t>(many.rows[t]));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i] = static_cast<std::int64_t>(i);
      }
      for (std::int64_t u = 0; u < count; ++u) {
        many.ids.push_back(first_row + rows[static_cast<std::size_t>(u * many.rows[t] / count)]);
        auto const values = this->random.reals(widths[t]);
        many.values.insert(many.values.end(), values.begin(), values.end());
        many.values.resize(many.ids.size() * static_cast<std::size_t>(stride), std::nanf(""));
      }
      many.starts.push_back(std::ssize(many.ids));
      first_row += many.rows[t];
    }
    return many;
  }

  /// Two steps of a rule on tables of type T, with gradients that are parts or copies of parts.
  /// Returns the bytes of all tables and states.
  template <class T>
  std::vector<std::byte> updated(OptimizerRule const& rule,
                                 ManyGradients const& many,
                                 std::vector<Floats> const& weights,
                                 std::vector<Floats> const& states,
                                 bool as_parts) {
    auto const ids = this->upload(many.ids);
    auto const values = this->upload(many.values);
    auto const starts = this->upload(many.starts);
    std::vector<Buffer<T>> tables;
    std::vector<Buffer<float>> states0;
    std::vector<Buffer<float>> states1;
    std::vector<Buffer<std::int64_t>> own_ids;
    std::vector<Buffer<std::int64_t>> own_counts;
    std::vector<Buffer<float>> own_values;
    std::vector<RowUpdate> updates;
    for (std::size_t t = 0; t < many.widths.size(); ++t) {
      std::vector<T> elements;
      for (auto const weight : weights[t]) {
        elements.push_back(from_float<T>(weight));
      }
      tables.push_back(this->upload(elements));
      states0.push_back(this->upload(states[t]));
      states1.push_back(this->upload(states[t]));
      Integers rows;
      Floats rows_values;
      for (auto u = many.starts[t]; u < many.starts[t + 1]; ++u) {
        rows.push_back(many.ids[static_cast<std::size_t>(u)] - many.first_rows[t]);
        auto const from = many.values.begin() + u * many.stride;
        rows_values.insert(rows_values.end(), from, from + many.widths[t]);
      }
      rows.resize(static_cast<std::size_t>(many.rows[t]), 0);
      rows_values.resize(static_cast<std::size_t>(many.rows[t] * many.widths[t]), std::nanf(""));
      own_ids.push_back(this->upload(rows));
      own_counts.push_back(this->scalar(many.count(t)));
      own_values.push_back(this->upload(rows_values));
      RowUpdate update{.table = tables.back().data(),
                       .dtype = dtype_of<T>,
                       .numbers = {.weight_decay = t % 3 == 0 ? 0.1F : 0.0F},
                       .width = many.widths[t],
                       .row_ids = own_ids.back().data(),
                       .row_count = own_counts.back().data(),
                       .capacity = many.rows[t],
                       .gradients = own_values.back().data(),
                       .state0 = states0.back().data(),
                       .state1 = states1.back().data()};
      if (as_parts) {
        update.row_ids = ids.data();
        update.row_count = starts.data() + t + 1;
        update.gradients = values.data();
        update.is_part = true;
        update.first_row = many.first_rows[t];
        update.stride = many.stride;
      }
      updates.push_back(update);
    }
    auto const state = this->upload(std::vector<StepState>(1));
    for (int step = 0; step < 2; ++step) {
      advance_step(this->stream(), rule, state.data());
      this->replay([&](Stream stream) { update_rows(stream, rule, state.data(), updates); });
    }
    std::vector<std::byte> bytes;
    auto const append = [&](auto const& buffer) {
      auto const elements = this->read(buffer);
      auto const* const from = reinterpret_cast<std::byte const*>(elements.data());
      bytes.insert(bytes.end(), from, from + elements.size() * sizeof(elements.front()));
    };
    for (std::size_t t = 0; t < tables.size(); ++t) {
      append(tables[t]);
      append(states0[t]);
      append(states1[t]);
    }
    return bytes;
  }
  template <class T>
  void expect_equal_updates(Integers const& widths, std::int64_t stride) {
    auto const many = gradients_of(widths, stride);
    std::vector<Floats> weights;
    std::vector<Floats> states;
    for (std::size_t t = 0; t < widths.size(); ++t) {
      weights.push_back(this->random.reals(many.rows[t] * widths[t]));
      states.push_back(this->random.reals(many.rows[t] * widths[t], 0.1F, 1.0F));
    }
    for (int kind = 0; kind <= static_cast<int>(OptimizerKind::partial_rowwise_adam); ++kind) {
      SCOPED_TRACE(fmt::format("kind {}, {} tables, stride {}", kind, widths.size(), stride));
      OptimizerRule const rule{.kind = static_cast<OptimizerKind>(kind), .learning_rate = 0.1F};
      auto const parts = updated<T>(rule, many, weights, states, true);
      ASSERT_EQ(parts, updated<T>(rule, many, weights, states, false));
    }
  }
};
TYPED_TEST_SUITE(OptimizerPartsTest, StreamKinds, StreamKindName);

TYPED_TEST(OptimizerPartsTest, one_table_or_many_move_as_by_gradients_of_their_own) {
  for (Integers const& widths : {Integers{33}, Integers{1, 3, 4, 32, 33, 128, 200, 8}}) {
    for (std::int64_t const stride : {200, 203}) {
      this->template expect_equal_updates<float>(widths, stride);
      this->template expect_equal_updates<float16>(widths, stride);
      this->template expect_equal_updates<bfloat16>(widths, stride);
    }
  }
}

// A launch takes 40 tables.
TYPED_TEST(OptimizerPartsTest, more_tables_than_a_launch_takes) {
  this->template expect_equal_updates<float>(Integers(41, 8), 8);
}

TYPED_TEST(OptimizerPartsTest, the_global_norm_of_parts_is_that_of_their_copies) {
  for (std::int64_t const stride : {128, 131}) {
    auto const many = this->gradients_of({1, 3, 4, 32, 33, 128, 8}, stride);
    auto const values = this->upload(many.values);
    auto const starts = this->upload(many.starts);
    std::vector<Buffer<float>> own_values;
    std::vector<Buffer<std::int64_t>> own_counts;
    std::vector<NormPart> parts;
    std::vector<NormPart> copies;
    double squares = 0.0;
    for (std::size_t t = 0; t < many.widths.size(); ++t) {
      Floats own;
      for (auto u = many.starts[t]; u < many.starts[t + 1]; ++u) {
        auto const from = many.values.begin() + u * stride;
        own.insert(own.end(), from, from + many.widths[t]);
      }
      for (double const value : own) {
        squares += std::min(value * value, 0.25);
      }
      auto const count = many.rows[t] * many.widths[t];
      own.resize(static_cast<std::size_t>(count), std::nanf(""));
      own_values.push_back(this->upload(own));
      own_counts.push_back(this->scalar(many.count(t)));
      copies.push_back({.gradient = own_values.back().data(),
                        .count = count,
                        .row_count = own_counts.back().data(),
                        .width = many.widths[t],
                        .clip_value = 0.5F});
      parts.push_back({.gradient = values.data(),
                       .count = count,
                       .row_count = starts.data() + t + 1,
                       .width = many.widths[t],
                       .clip_value = 0.5F,
                       .is_part = true,
                       .stride = stride});
    }
    auto const norm_of = [&](std::vector<NormPart> const& of) {
      auto const memory = this->workspace(norm_workspace_bytes(of));
      auto const state = this->upload(std::vector<StepState>(1));
      StepAdvance advance{OptimizerRule{.kind = OptimizerKind::sgd, .learning_rate = 0.1F}};
      advance.clip_norm = 1.0;
      this->replay([&](TypeParam stream) {
        advance_step_by_norm(stream, advance, of, memory.data(), state.data());
      });
      return this->read(state).front().norm;
    };
    auto const norm = norm_of(parts);
    EXPECT_NEAR(norm, std::sqrt(squares), 1e-13 * norm);
    EXPECT_EQ(norm, norm_of(copies));
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
