// SPDX-License-Identifier: Apache-2.0
// Tests views of parameters, tables and results: the gradient of a view is added to the gradient of
// the whole tensor.
#include "ops/ops_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>

#if __has_include(<dlpack/dlpack.h>)
#include <msstream/tensor/dlpack.hpp>
#endif

#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

template <class R>
class GradientViewsTest : public OpsTest<R> {
 protected:
  using Tape = GradientTape<R>;
  using Input = Tensor<float, R>;

  [[nodiscard]] Input ones(Shape const& shape) const {
    return this->put(Floats(static_cast<std::size_t>(shape.count()), 1.0F), shape);
  }
  /// Returns `factor` times the sum of the elements of `input`, whose gradient is `factor`
  /// everywhere.
  static Input part(Tape& tape, Input const& input, float factor) {
    return ops::scale(tape, ops::sum(tape, input), factor);
  }
  static Input total(Tape& tape, std::vector<Input> const& terms) { return ops::add(tape, terms); }
  static Input looked_up(Tape& tape, auto const& table, ops::Bags<R> const& bags, float factor) {
    return part(tape, ops::embedding_lookup(tape, table, bags), factor);
  }
  [[nodiscard]] ops::Bags<R> ids(Integers const& values) const { return {this->put(values)}; }

  /// Trains a table of ones by one step of SGD with learning rate 1, which subtracts the gradient,
  /// and returns the table.
  template <class Loss>
  Floats moved(Shape const& shape, Loss const& loss) {
    auto const table = ones(shape);
    Tape tape(this->device());
    Optimizer<R> optimizer(this->device(),
                           {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
    optimizer.add_table("table", table);
    tape.backward(loss(tape, table));
    optimizer.step(tape);
    return to_host(table);
  }
};
TYPED_TEST_SUITE(GradientViewsTest, Runtimes, RuntimeNames);

TYPED_TEST(GradientViewsTest, rows_of_a_parameter_add_into_the_whole) {
  for (bool const by_tape : {false, true}) {
    for (bool const whole_first : {false, true}) {
      GradientTape tape(this->device());
      auto const w = this->ones({4});
      auto const rows = by_tape ? ops::rows(tape, w, 0, 2) : w.rows(0, 2);
      auto const first = this->part(tape, whole_first ? w : rows, 1.0F);
      auto const second = this->part(tape, whole_first ? rows : w, 1.0F);
      tape.backward(this->total(tape, {first, second}));
      EXPECT_THAT(to_host(tape.gradient(w)), ElementsAre(2, 2, 1, 1));
      EXPECT_THAT(to_host(tape.gradient(rows)), ElementsAre(2, 2));
      EXPECT_THAT(to_host(tape.gradient(w.rows(1, 3))), ElementsAre(2, 1));
    }
  }
}

TYPED_TEST(GradientViewsTest, overlapping_reshaped_and_nested_views_add_up) {
  GradientTape tape(this->device());
  auto const w = this->ones({6, 2});
  auto const flat = w.reshaped({12});
  tape.backward(this->total(tape,
                            {this->part(tape, w.rows(1, 4), 1.0F),
                             this->part(tape, flat.rows(5, 9), 10.0F),
                             this->part(tape, w.rows(1, 4).rows(0, 1).reshaped({2, 1}), 100.0F),
                             this->part(tape, flat.rows(5, 9), 1000.0F)}));
  EXPECT_THAT(to_host(tape.gradient(w)),
              ElementsAre(0, 0, 101, 101, 1, 1011, 1011, 1011, 1010, 0, 0, 0));
  EXPECT_EQ(tape.gradient(w).shape(), (Shape{6, 2}));
  EXPECT_THAT(to_host(tape.gradient(w.rows(2, 3))), ElementsAre(1, 1011));
  EXPECT_THROW((void)tape.gradient(w.rows(5, 6)), std::logic_error);
}

TYPED_TEST(GradientViewsTest, views_of_a_result_pass_the_gradient_on) {
  GradientTape tape(this->device());
  auto const x = this->ones({4, 2});
  auto const h = ops::scale(tape, x, 2.0F);
  auto const early = this->part(tape, h.rows(0, 2), 1.0F);  // before the tape makes this view
  auto const late = this->part(tape, ops::rows(tape, h, 0, 2), 10.0F);
  auto const middle = this->part(tape, h.rows(1, 3), 100.0F);
  auto const whole = this->part(tape, h, 1000.0F);
  tape.backward(this->total(tape, {early, late, middle, whole}));
  EXPECT_THAT(to_host(tape.gradient(x)),
              ElementsAre(2022, 2022, 2222, 2222, 2200, 2200, 2000, 2000));
  EXPECT_THROW((void)tape.gradient(h), std::logic_error);
}

TYPED_TEST(GradientViewsTest, a_loss_may_be_an_element_of_a_result) {
  GradientTape tape(this->device());
  auto const x = this->ones({3});
  auto const losses = ops::scale(tape, x, 2.0F);
  tape.backward(losses.rows(1, 2));
  EXPECT_THAT(to_host(tape.gradient(x)), ElementsAre(0, 2, 0));
}

TYPED_TEST(GradientViewsTest, a_view_of_data_is_data) {
  GradientTape tape(this->device());
  auto const x = this->ones({4});
  tape.without_gradient(x.rows(0, 3));
  EXPECT_FALSE(tape.wants_gradient(x.rows(1, 2)));
  EXPECT_TRUE(tape.wants_gradient(x));
  EXPECT_TRUE(tape.wants_gradient(x.rows(2, 4)));
  tape.clear();
  EXPECT_TRUE(tape.wants_gradient(x.rows(1, 2)));
}

TYPED_TEST(GradientViewsTest, the_sum_of_views_has_the_same_bits_on_any_groups) {
  auto const values = this->random.reals(64);
  auto const gradient_on = [&](int groups) {
    StreamPool pool(this->device(), {.groups = groups});
    GradientTape tape(this->device());
    auto const w = this->put(values, {16, 4});
    std::vector<Tensor<float, TypeParam>> terms;
    for (int i = 0; i < 12; ++i) {
      StreamScope const branch(pool[i % groups], {.include_grad = true});
      auto const view = i % 3 == 0 ? w : w.rows(i, i + 4);
      terms.push_back(ops::sum(tape, ops::sigmoid(tape, ops::scale(tape, view, 0.37F))));
    }
    tape.backward(ops::add(tape, terms));
    return to_host(tape.gradient(w));
  };
  auto const expected = gradient_on(1);
  for (int const groups : {2, 4}) {
    EXPECT_EQ(gradient_on(groups), expected) << groups << " groups";
  }
}

TYPED_TEST(GradientViewsTest, refuses_a_tensor_of_which_a_result_is_a_part) {
  GradientTape tape(this->device());
  auto const buffer = this->ones({4});
  auto const x = this->ones({2});
  tape.record("into_buffer", buffer.rows(0, 2), [x](auto& playing, auto const& gradient) {
    playing.add_gradient(x, gradient);
  });
  auto const loss = ops::sum(tape, buffer);
  EXPECT_THAT(message_of<std::logic_error>([&] { tape.backward(loss); }),
              AllOf(HasSubstr("[4]"), HasSubstr("[2]"), HasSubstr("concat")));
  tape.clear();
  tape.backward(ops::sum(tape, buffer));
  EXPECT_THAT(to_host(tape.gradient(buffer)), Each(1.0F));
}

TYPED_TEST(GradientViewsTest, lookups_in_rows_of_a_table_move_the_table) {
  EXPECT_THAT(this->moved({4, 2},
                          [&](auto& tape, auto const& table) {
                            return this->looked_up(
                                tape, ops::rows(tape, table, 2, 4), this->ids({1}), 0.5F);
                          }),
              ElementsAre(1, 1, 1, 1, 1, 1, 0.5, 0.5));
  // Looks up rows of the whole table, of overlapping views, and of a view of a view.
  EXPECT_THAT(this->moved({5, 1},
                          [&](auto& tape, auto const& table) {
                            return this->total(
                                tape,
                                {this->looked_up(tape, table, this->ids({0, 3}), 1.0F),
                                 this->looked_up(tape, table.rows(1, 4), this->ids({2, 0}), 10.0F),
                                 this->looked_up(tape, table.rows(3, 5), this->ids({0, 0}), 100.0F),
                                 this->looked_up(tape,
                                                 table.rows(1, 4).rows(1, 3),
                                                 this->ids({1, 7}),  // 7 is no row
                                                 1000.0F)});
                          }),
              ElementsAre(0, -9, 1, 1 - 1211, 1));
}

TYPED_TEST(GradientViewsTest, a_view_of_a_table_moves_by_its_rows_of_lookups_in_the_whole) {
  for (bool const together : {false, true}) {
    auto const table = this->ones({6, 2});
    GradientTape tape(this->device());
    Optimizer<TypeParam> optimizer(this->device(),
                                   {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F},
                                   {.tables_together = together});
    optimizer.add_table("low", table.rows(0, 2));
    optimizer.add_table("high", table.rows(3, 6));
    tape.backward(
        this->total(tape,
                    {this->looked_up(tape, table, this->ids({0, 2, 3, 5}), 1.0F),
                     this->looked_up(tape, table.rows(1, 4), this->ids({0, 1, 2}), 10.0F)}));
    optimizer.step(tape);
    EXPECT_THAT(to_host(table), ElementsAre(0, 0, -9, -9, 1, 1, -10, -10, 1, 1, 0, 0));
    auto const parts = tape.row_gradients(table.rows(3, 6));
    ASSERT_EQ(parts.size(), 2U);
  }
}

TYPED_TEST(GradientViewsTest, lookups_in_rows_of_a_table_in_half_precision) {
  auto const table = this->put(std::vector<bfloat16>(8, from_float<bfloat16>(1.0F)), {4, 2});
  GradientTape tape(this->device());
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  optimizer.add_table("table", table);
  tape.backward(this->looked_up(tape, table.rows(1, 3), this->ids({1}), 0.5F));
  optimizer.step(tape);
  EXPECT_THAT(to_doubles(to_host(table)), ElementsAre(1, 1, 1, 1, 0.5, 0.5, 1, 1));
}

TYPED_TEST(GradientViewsTest, tables_of_a_batch_of_tables_add_into_its_weights) {
  ops::TableBatch<float, TypeParam> const tables(this->device(), {2, 3}, 1);
  fill_bytes(tables.weights(), 0);
  GradientTape tape(this->device());
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  optimizer.add_table("tables", tables.weights());
  tape.backward(this->looked_up(tape, tables.table(1), this->ids({0, 2}), 1.0F));
  optimizer.step(tape);
  EXPECT_THAT(to_host(tables.weights()), ElementsAre(0, 0, -1, 0, -1));
}

TYPED_TEST(GradientViewsTest, lookups_count_in_the_dense_gradient) {
  auto const table = this->ones({3, 2});
  GradientTape tape(this->device());
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  optimizer.add("tied", table);
  tape.backward(this->total(tape,
                            {this->looked_up(tape, table.rows(1, 3), this->ids({1, 1}), 10.0F),
                             this->part(tape, table.rows(0, 1), 1.0F)}));
  EXPECT_THAT(to_host(tape.gradient(table)), ElementsAre(1, 1, 0, 0, 20, 20));
  optimizer.step(tape);
  EXPECT_THAT(to_host(table), ElementsAre(0, 0, 1, 1, -19, -19));
}

TYPED_TEST(GradientViewsTest, lookups_in_a_result_pass_the_gradient_on) {
  auto const x = this->ones({3, 2});
  GradientTape tape(this->device());
  auto const table = ops::scale(tape, x, 2.0F);
  tape.backward(this->total(tape,
                            {this->looked_up(tape, table, this->ids({0, 2}), 1.0F),
                             this->looked_up(tape, table.rows(1, 3), this->ids({1}), 10.0F)}));
  EXPECT_THAT(to_host(tape.gradient(x)), ElementsAre(2, 2, 0, 0, 22, 22));
}

TYPED_TEST(GradientViewsTest, refuses_lookups_in_a_view_with_other_rows_before_anything_moves) {
  for (bool const misaligned : {false, true}) {
    auto const table = this->ones({4, 2});
    auto const view =
        misaligned ? table.reshaped({8}).rows(1, 5).reshaped({2, 2}) : table.reshaped({8, 1});
    GradientTape tape(this->device());
    Optimizer<TypeParam> optimizer(this->device(),
                                   {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
    optimizer.add_table("table", table);
    tape.backward(this->looked_up(tape, view, this->ids({1}), 1.0F));
    EXPECT_THAT(message_of<std::logic_error>([&] { optimizer.step(tape); }),
                AllOf(HasSubstr("[4, 2]"), HasSubstr(to_string(view.shape()))));
    EXPECT_THAT(to_host(table), Each(1.0F));
  }
}

#if __has_include(<dlpack/dlpack.h>)
TYPED_TEST(GradientViewsTest, a_handle_by_way_of_dlpack_is_one_of_the_same_elements) {
  GradientTape tape(this->device());
  auto const w = this->ones({4});
  auto const shared = from_dlpack<float>(this->device(), to_dlpack(w.rows(2, 4)));
  tape.backward(this->total(tape, {this->part(tape, w, 1.0F), this->part(tape, shared, 10.0F)}));
  EXPECT_THAT(to_host(tape.gradient(w)), ElementsAre(1, 1, 11, 11));
}
#endif

}  // namespace
}  // namespace msstream::testing
