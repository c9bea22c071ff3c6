// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/tables_update.hpp"

#include "kernels/embedding/embedding_fixture.hpp"
#include "kernels/optimizer/optimizer_reference.hpp"

#include <msstream/base/format.hpp>

#include <fmt/core.h>

#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace msstream::ops::kernels::testing {
namespace {

using Numbers = std::vector<std::int32_t>;

/// A table of a lookup in many, and the group in which it is updated; null if it is not.
struct MovedCase {
  std::int64_t width;
  DType dtype = DType::float32;
  std::optional<GroupNumbers> numbers = GroupNumbers{};
  Pooling pooling = Pooling::sum;
  std::int64_t rows = 40;
  RowRounding rounding = {};
};

/// The tables of a machine, in the memory of one of the two ways to update them.
struct MovedMemory {
  std::vector<Buffer<std::byte>> weights = {};
  std::vector<Buffer<float>> first = {};
  std::vector<Buffer<float>> second = {};
};

/// Compares embedding_tables_update() with embedding_tables_gradient() and update_rows(), bit for
/// bit, and with the rules in double.
template <class Stream>
class TablesUpdateTest : public KernelTest<Stream> {
 protected:
  bool has_factors = true;
  std::int64_t batch = 50;
  std::int64_t places = 6000;  ///< in parts of 16
  bool is_skipped = false;
  bool has_nan = false;  ///< whether one bag has a gradient that is not a number
  bool can_update = true;

  template <class T = float>
  void expect_update(OptimizerRule const& rule, std::vector<MovedCase> const& cases) {
    SCOPED_TRACE(fmt::format(
        "kind {}, gradient of {}", static_cast<int>(OptimizerKind{rule.kind}), dtype_of<T>));
    draw_weights(cases);
    draw_places(cases);
    auto const apart = put_tables(cases);
    auto const fused = put_tables(cases);
    auto plan = plan_tables(descriptors(cases, apart));
    Floats values = this->random.reals(batch * plan.width, 0.25F, 1.0F);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= i % static_cast<std::size_t>(plan.width) % 3 == 0 ? -1.0F : 1.0F;
    }
    if (has_nan) {
      values.front() = std::numeric_limits<float>::quiet_NaN();
    }
    std::vector<T> gradient;
    for (auto& value : values) {
      gradient.push_back(from_float<T>(value));
      value = to_float(gradient.back());
    }
    auto const counter = this->upload(std::vector{StepState{}});
    advance_step(this->stream(), StepAdvance{rule}, counter.data());
    if (is_skipped) {
      auto state = this->read(counter).front();
      state.gradient_factor = 0.0F;
      this->write(counter, std::vector{state});
    }
    draw_argmax(plan);
    auto const output_gradient = this->upload(gradient);
    auto const tables = this->upload(plan.tables);
    auto args = upload_places(plan, tables, output_gradient.data(), dtype_of<T>);
    auto const sums = this->floats(places * plan.widest);
    auto const starts = this->integers(std::ssize(cases) + 1);
    auto const memory = this->workspace(
        embedding_tables_gradient_workspace_bytes(this->stream(), places, plan.widest));
    ASSERT_EQ(can_update_tables(rule.kind, args), can_update);
    if (!can_update) {
      return;
    }
    args.values = sums.data();
    args.table_starts = starts.data();
    args.workspace = memory.data();
    this->replay([&](Stream stream) {
      embedding_tables_gradient(stream, args);
      update_rows(stream, rule, counter.data(), updates_of(cases, apart, args, plan.widest));
    });
    auto const sums_of_rows = this->read(sums);

    auto const fused_plan = plan_tables(descriptors(cases, fused));
    auto const fused_tables = this->upload(fused_plan.tables);
    this->poison(sums);
    this->poison(memory);
    args.plan = &fused_plan;
    args.tables = fused_tables.data();
    args.values = nullptr;
    args.table_starts = nullptr;
    std::vector<TableMove> moves;
    for (std::size_t t = 0; t < cases.size(); ++t) {
      auto const& numbers = cases[t].numbers;
      moves.push_back({fused.first[t].data(),
                       fused.second[t].data(),
                       numbers.value_or(GroupNumbers{}),
                       numbers.has_value(),
                       cases[t].rounding});
    }
    this->replay([&](Stream stream) {
      embedding_tables_update(stream, rule, counter.data(), {args, moves});
    });
    for (std::size_t t = 0; t < cases.size(); ++t) {
      SCOPED_TRACE(fmt::format("table {} of width {}", t, cases[t].width));
      ASSERT_EQ(this->read(fused.weights[t]), this->read(apart.weights[t]));
      ASSERT_TRUE(are_same(this->read(fused.first[t]), this->read(apart.first[t])));
      ASSERT_TRUE(are_same(this->read(fused.second[t]), this->read(apart.second[t])));
      if (!has_nan) {
        expect_reference(rule, cases[t], plan, t, values, this->read(fused.weights[t]));
      }
    }
  }

 private:
  void draw_weights(std::vector<MovedCase> const& cases) {
    weights_.clear();
    for (auto const& table : cases) {
      weights_.push_back(packed(this->random.reals(table.rows * table.width), table.dtype));
    }
  }
  /// Draws the row and the bag of each position. Three of ten positions are of one row, which has
  /// many parts of positions for itself, and one of ten has no row.
  void draw_places(std::vector<MovedCase> const& cases) {
    bags_.clear();
    factors_ = this->random.reals(places, 0.5F, 1.0F);
    groups_.clear();
    Integers first_rows{0};
    for (auto const& table : cases) {
      first_rows.push_back(first_rows.back() + table.rows);
    }
    auto const tables = std::ssize(cases);
    for (std::int64_t place = 0; place < places; ++place) {
      bool const is_hot = this->random.integer(0, 9) < 3;
      auto const table = is_hot ? tables / 2 : this->random.integer(0, tables - 1);
      auto const at = static_cast<std::size_t>(table);
      auto const row = is_hot ? 0 : this->random.integer(0, cases[at].rows - 1);
      bags_.push_back(
          static_cast<std::int32_t>(table * batch + this->random.integer(0, batch - 1)));
      if (is_hot || this->random.integer(0, 9) > 0) {
        groups_[first_rows[at] + row].push_back(static_cast<std::int32_t>(place));
      }
    }
  }
  void draw_argmax(TablePlan const& plan) {
    argmax_.assign(static_cast<std::size_t>(batch * plan.argmax_width), -1);
    for (std::size_t place = 0; place < bags_.size(); ++place) {
      auto const& table = plan.tables[static_cast<std::size_t>(bags_[place] / batch)];
      for (std::int32_t c = 0; table.pooling == Pooling::max && c < table.width; ++c) {
        auto& winner = argmax_[static_cast<std::size_t>(bags_[place] % batch * plan.argmax_width +
                                                        table.first_argmax_column + c)];
        winner = winner < 0 || this->random.integer(0, 2) == 0 ? static_cast<std::int32_t>(place)
                                                               : winner;
      }
    }
  }
  MovedMemory put_tables(std::vector<MovedCase> const& cases) {
    MovedMemory memory;
    for (std::size_t t = 0; t < cases.size(); ++t) {
      auto const elements = static_cast<std::size_t>(cases[t].rows * cases[t].width);
      memory.weights.push_back(this->upload(weights_[t]));
      memory.first.push_back(this->upload(Floats(elements, 0.0F)));
      memory.second.push_back(this->upload(Floats(elements, 0.0F)));
    }
    return memory;
  }
  static std::vector<TableDescriptor> descriptors(std::vector<MovedCase> const& cases,
                                                  MovedMemory const& memory) {
    std::vector<TableDescriptor> tables;
    for (std::size_t t = 0; t < cases.size(); ++t) {
      tables.push_back({.table = memory.weights[t].data(),
                        .rows = cases[t].rows,
                        .width = static_cast<std::int32_t>(cases[t].width),
                        .dtype = cases[t].dtype,
                        .pooling = cases[t].pooling});
    }
    return tables;
  }
  TablesGradientArgs upload_places(TablePlan const& plan,
                                   Buffer<TableDescriptor> const& tables,
                                   void const* output_gradient,
                                   DType dtype) {
    Integers unique_rows;
    Numbers starts{0};
    Numbers positions;
    Numbers ranks;
    for (auto const& [row, members] : groups_) {
      ranks.insert(ranks.end(), members.size(), static_cast<std::int32_t>(unique_rows.size()));
      unique_rows.push_back(row);
      positions.insert(positions.end(), members.begin(), members.end());
      starts.push_back(static_cast<std::int32_t>(positions.size()));
    }
    auto const uniques = std::ssize(unique_rows);
    auto const all = static_cast<std::size_t>(places);
    unique_rows.resize(all, -1);
    positions.resize(all, -1);
    ranks.resize(all, -1);
    starts.resize(all + 1, -1);
    uploaded_.emplace(Uploaded{this->upload(plan.first_rows),
                               this->upload(unique_rows),
                               this->upload(starts),
                               this->upload(positions),
                               this->upload(ranks),
                               this->scalar(uniques),
                               this->upload(bags_),
                               this->upload(factors_),
                               this->upload(argmax_)});
    return {.plan = &plan,
            .tables = tables.data(),
            .first_rows = uploaded_->first_rows.data(),
            .batch = batch,
            .places = places,
            .unique_rows = uploaded_->unique_rows.data(),
            .starts = uploaded_->starts.data(),
            .positions = uploaded_->positions.data(),
            .ranks = uploaded_->ranks.data(),
            .unique_count = uploaded_->unique_count.data(),
            .bags_of_places = uploaded_->bags.data(),
            .factors = has_factors ? uploaded_->factors.data() : nullptr,
            .output_gradient = output_gradient,
            .gradient_dtype = dtype,
            .values = nullptr,
            .table_starts = nullptr,
            .workspace = nullptr,
            .argmax = argmax_.empty() ? nullptr : uploaded_->argmax.data()};
  }
  std::vector<RowUpdate> updates_of(std::vector<MovedCase> const& cases,
                                    MovedMemory const& memory,
                                    TablesGradientArgs const& args,
                                    std::int64_t widest) const {
    std::vector<RowUpdate> updates;
    std::int64_t first_row = 0;
    for (std::size_t t = 0; t < cases.size(); ++t) {
      if (cases[t].numbers) {
        updates.push_back({.table = memory.weights[t].data(),
                           .dtype = cases[t].dtype,
                           .numbers = *cases[t].numbers,
                           .width = cases[t].width,
                           .row_ids = args.unique_rows,
                           .row_count = args.table_starts + t + 1,
                           .capacity = cases[t].rows,
                           .gradients = args.values,
                           .state0 = memory.first[t].data(),
                           .state1 = memory.second[t].data(),
                           .is_part = true,
                           .first_row = first_row,
                           .stride = widest,
                           .rounding = cases[t].rounding});
      }
      first_row += cases[t].rows;
    }
    return updates;
  }
  /// Compares the weights with the rule of their table in double. All terms of a sum have one sign,
  /// so that its relative error is at most that of one addition for each position. Stochastic
  /// rounding errs by up to twice what nearest does.
  void expect_reference(OptimizerRule const& rule,
                        MovedCase const& table,
                        TablePlan const& plan,
                        std::size_t number,
                        Floats const& gradient,
                        Bytes const& found_bytes) const {
    auto const before = unpacked(weights_[number], table.dtype);
    auto const found = unpacked(found_bytes, table.dtype);
    auto const first_row = plan.first_rows[number];
    auto const& descriptor = plan.tables[number];
    double const stored = table.dtype == DType::float32   ? 0x1p-23
                          : table.dtype == DType::float16 ? 0x1p-11
                                                          : 0x1p-8;
    double const rounded = table.rounding.is_stochastic ? 2.0 * stored : stored;
    for (std::int64_t row = 0; row < table.rows; ++row) {
      auto const group = groups_.find(first_row + row);
      bool const moves = table.numbers && group != groups_.end() && !is_skipped;
      auto const at = [&](std::int64_t c) {
        return static_cast<std::size_t>(row * table.width + c);
      };
      std::vector<double> sums(static_cast<std::size_t>(table.width), 0.0);
      for (auto const place : moves ? group->second : Numbers{}) {
        auto const i = static_cast<std::size_t>(place);
        auto const bag = bags_[i] % batch;
        for (std::int64_t c = 0; c < table.width; ++c) {
          if (table.pooling == Pooling::max &&
              argmax_[static_cast<std::size_t>(bag * plan.argmax_width +
                                               descriptor.first_argmax_column + c)] != place) {
            continue;
          }
          sums[static_cast<std::size_t>(c)] +=
              (has_factors ? factors_[i] : 1.0) *
              gradient[static_cast<std::size_t>(bag * plan.width + descriptor.first_column + c)];
        }
      }
      ReferenceRow expected{
          {before.begin() + row * table.width, before.begin() + (row + 1) * table.width}};
      if (moves) {
        auto of_table = rule;
        of_table.weight_decay = table.numbers->weight_decay;
        of_table.clip_value = table.numbers->clip_value;
        follow_the_paper(
            expected, of_table, sums, 1, of_table.learning_rate * table.numbers->rate, true);
      }
      for (std::int64_t c = 0; c < table.width; ++c) {
        double const weight = expected.weights[static_cast<std::size_t>(c)];
        if (!moves) {
          ASSERT_EQ(found[at(c)], before[at(c)]) << "row " << row << " without a gradient";
        } else {
          ASSERT_NEAR(found[at(c)],
                      weight,
                      2e-3 * std::abs(weight - before[at(c)]) + rounded * std::abs(weight) + 1e-6)
              << "row " << row << ", column " << c;
        }
      }
    }
  }

  struct Uploaded {
    Buffer<std::int64_t> first_rows;
    Buffer<std::int64_t> unique_rows;
    Buffer<std::int32_t> starts;
    Buffer<std::int32_t> positions;
    Buffer<std::int32_t> ranks;
    Buffer<std::int64_t> unique_count;
    Buffer<std::int32_t> bags;
    Buffer<float> factors;
    Buffer<std::int32_t> argmax;
  };
  std::vector<Bytes> weights_;
  Numbers bags_;
  Floats factors_;
  Numbers argmax_;
  std::map<std::int64_t, Numbers> groups_;  ///< the positions of each row that has some
  std::optional<Uploaded> uploaded_;
};
TYPED_TEST_SUITE(TablesUpdateTest, StreamKinds, StreamKindName);

constexpr GroupNumbers kOtherNumbers{.rate = 0.5F, .weight_decay = 0.01F, .clip_value = 2.0F};

TYPED_TEST(TablesUpdateTest, equal_tables_of_all_widths_move_as_the_rules_say) {
  for (auto const kind : kAllOptimizerKinds) {
    bool const has_row_number =
        kind == OptimizerKind::rowwise_adagrad || kind == OptimizerKind::partial_rowwise_adam;
    bool const takes_all = !has_row_number && kind != OptimizerKind::lamb;
    for (std::int64_t const width :
         {1, 4, 8, 33, 64, 128, 130, 132, 200, 256, 260, 511, 512, 516}) {
      for (auto const dtype : {DType::float32, DType::float16, DType::bfloat16}) {
        this->has_factors = width != 64;
        this->places = width <= 128 ? 6000 : 2000;
        this->can_update =
            takes_all || width <= 128 || (has_row_number && width <= 512 && width % 4 == 0);
        this->expect_update({.kind = kind, .learning_rate = 0.1F},
                            {{width, dtype}, {width, dtype}, {width, dtype}});
      }
    }
  }
}

TYPED_TEST(TablesUpdateTest, tables_of_mixed_widths_types_poolings_and_groups_move_at_once) {
  std::vector<MovedCase> const cases{{128},
                                     {32, DType::bfloat16, kOtherNumbers},
                                     {1, DType::float32},
                                     {20, DType::float16},
                                     {128, DType::float32, kOtherNumbers, Pooling::max},
                                     {64, DType::float32, std::nullopt},
                                     {7, DType::bfloat16, GroupNumbers{}, Pooling::max},
                                     {4, DType::float32, kOtherNumbers, Pooling::sum, 1}};
  for (auto const kind : kAllOptimizerKinds) {
    this->expect_update({.kind = kind, .learning_rate = 0.1F}, cases);
    this->template expect_update<float16>({.kind = kind, .learning_rate = 0.1F}, cases);
    this->template expect_update<bfloat16>({.kind = kind, .learning_rate = 0.1F}, cases);
  }
}

// The widest table decides how the lanes of a warp share the rows of all.
TYPED_TEST(TablesUpdateTest, wide_and_narrow_tables_of_rules_of_rows_move_at_once) {
  this->places = 2000;  // of which the hot row has more than 32 parts
  for (auto const kind : {OptimizerKind::rowwise_adagrad, OptimizerKind::partial_rowwise_adam}) {
    for (std::int64_t const widest : {132, 200, 256, 260, 384, 512}) {
      std::vector<MovedCase> const cases{{widest},
                                         {32, DType::bfloat16, kOtherNumbers},
                                         {widest - 4, DType::float16},
                                         {128, DType::float32, kOtherNumbers, Pooling::max},
                                         {64, DType::float32, std::nullopt},
                                         {4},
                                         {widest, DType::bfloat16, kOtherNumbers, Pooling::max}};
      this->expect_update({.kind = kind, .learning_rate = 0.1F}, cases);
      this->template expect_update<float16>({.kind = kind, .learning_rate = 0.1F}, cases);
      this->template expect_update<bfloat16>({.kind = kind, .learning_rate = 0.1F}, cases);
    }
  }
}

// The tables of a launch can be read four columns at a time, but the widest table is of another
// launch or stays, and has a width that is no multiple of four.
TYPED_TEST(TablesUpdateTest, tables_of_quads_move_beside_wider_tables_of_other_widths) {
  for (auto const kind : kAllOptimizerKinds) {
    OptimizerRule const rule{.kind = kind, .learning_rate = 0.1F};
    this->expect_update(rule, {{8}, {10, DType::float32, std::nullopt}, {10, DType::bfloat16}});
    this->expect_update(rule, {{4}, {6, DType::bfloat16}, {6, DType::bfloat16}});
    this->expect_update(rule, {{64}, {126, DType::float16}, {4}, {126, DType::float16}});
  }
}

TYPED_TEST(TablesUpdateTest, a_gradient_that_is_no_number_changes_its_rows_alone) {
  this->has_nan = true;
  for (auto const kind : {OptimizerKind::sgd,
                          OptimizerKind::adam,
                          OptimizerKind::rowwise_adagrad,
                          OptimizerKind::partial_rowwise_adam}) {
    for (std::int64_t const width : {20, 100, 128, 132, 200}) {
      this->places = 2000;
      std::vector<MovedCase> const cases{{width, DType::float32, kOtherNumbers},
                                         {8, DType::float32, kOtherNumbers},
                                         {width, DType::bfloat16, kOtherNumbers}};
      this->expect_update({.kind = kind, .learning_rate = 0.1F}, cases);
    }
  }
}

TYPED_TEST(TablesUpdateTest, half_precision_gradients_of_whole_rows_move_tables) {
  for (auto const kind : kAllOptimizerKinds) {
    std::vector<MovedCase> const cases{{128}, {16}, {64, DType::bfloat16}};
    this->template expect_update<bfloat16>({.kind = kind, .learning_rate = 0.1F}, cases);
    this->template expect_update<float16>({.kind = kind, .learning_rate = 0.1F}, cases);
  }
}

TYPED_TEST(TablesUpdateTest, takes_more_tables_than_one_launch) {
  for (auto const kind : {OptimizerKind::adam, OptimizerKind::rowwise_adagrad}) {
    std::vector<MovedCase> cases;
    for (int t = 0; t < 230; ++t) {
      cases.push_back({4 + 4 * (t % 3), t % 5 == 0 ? DType::float16 : DType::float32});
    }
    this->expect_update({.kind = kind, .learning_rate = 0.1F}, cases);
  }
}

TYPED_TEST(TablesUpdateTest, stochastically_rounded_tables_have_the_bits_of_the_separate_update) {
  RowRounding const rounding{true, 99, 1000};
  auto const cases_of = [&](std::int64_t width, DType dtype) {
    MovedCase const rounded{
        .width = width, .dtype = dtype, .numbers = kOtherNumbers, .rounding = rounding};
    MovedCase const nearest{.width = width, .dtype = dtype};
    return std::vector<MovedCase>{rounded, nearest, rounded};
  };
  for (auto const kind : kAllOptimizerKinds) {
    for (std::int64_t const width : {1, 3, 4, 33, 64, 128, 200, 512}) {
      this->can_update = width <= 128 || kind != OptimizerKind::lamb;
      this->places = width <= 128 ? 6000 : 2000;
      this->expect_update({.kind = kind, .learning_rate = 0.1F}, cases_of(width, DType::float16));
      this->template expect_update<bfloat16>({.kind = kind, .learning_rate = 0.1F},
                                             cases_of(width, DType::bfloat16));
    }
  }
  std::vector<MovedCase> many;
  for (std::int64_t t = 0; t < 150; ++t) {
    many.push_back({.width = 4 + 4 * (t % 3), .dtype = DType::bfloat16, .rounding = rounding});
    many.back().rounding.key = static_cast<std::uint64_t>(t);
  }
  this->expect_update({.kind = OptimizerKind::rowwise_adagrad, .learning_rate = 0.1F}, many);
}

TYPED_TEST(TablesUpdateTest, few_and_no_positions_and_skipped_steps_change_little) {
  std::vector<MovedCase> const cases{{128}, {16, DType::float32, kOtherNumbers}};
  for (auto const kind :
       {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad, OptimizerKind::lamb}) {
    for (std::int64_t const count : {0, 1, 17, 300}) {
      this->places = count;
      this->expect_update({.kind = kind, .learning_rate = 0.1F}, cases);
    }
    this->is_skipped = true;
    this->places = 2000;
    this->expect_update({.kind = kind, .learning_rate = 0.1F}, cases);
    this->is_skipped = false;
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
