// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <memory>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class R>
class GradientTapeTest : public OpsTest<R> {
 protected:
  [[nodiscard]] Tensor<float, R> ones(Shape const& shape) const {
    return this->put(Floats(static_cast<std::size_t>(shape.count()), 1.0F), shape);
  }
  /// Records an operation on the tape whose backward passes the gradient on to `input` and adds
  /// `note` to the journal.
  void record_note(GradientTape<R>& tape,
                   std::string const& note,
                   Tensor<float, R> const& output,
                   Tensor<float, R> const& input) {
    tape.record(note, output, [this, note, input](auto& playing, auto const& gradient) {
      journal.add(note);
      playing.add_gradient(input, gradient);
    });
  }
  Journal journal;
};
TYPED_TEST_SUITE(GradientTapeTest, Runtimes, RuntimeNames);

TYPED_TEST(GradientTapeTest, the_gradient_of_a_tensor_used_thousands_of_times_stays_accurate) {
  constexpr std::size_t kUses = 5000;
  GradientTape tape(this->device());
  auto const x = this->ones({});
  std::vector<Tensor<float, TypeParam>> terms;
  for (std::size_t i = 0; i < kUses; ++i) {
    terms.push_back(ops::scale(tape, x, 0.1F));
  }
  tape.backward(ops::add(tape, terms));
  auto const expected = static_cast<double>(0.1F) * kUses;
  // Uses the error bound of docs/limits.md. A sum of one term after the other has four times that
  // error.
  EXPECT_NEAR(to_host(tape.gradient(x)).front() / expected, 1.0, (kUses / 31.0 + 32) * 0x1p-24);
}

TYPED_TEST(GradientTapeTest, plays_back_last_first_and_only_what_the_loss_depends_on) {
  GradientTape tape(this->device());
  auto const x = this->ones({});
  auto const first = this->ones({});
  auto const beside = this->ones({});
  auto const last = this->ones({});
  this->record_note(tape, "first", first, x);
  this->record_note(tape, "beside", beside, first);
  this->record_note(tape, "last", last, first);
  tape.backward(last);
  EXPECT_THAT(this->journal.entries(), ElementsAre("last", "first"));
  EXPECT_THAT(to_host(tape.gradient(x)), ElementsAre(1.0F));
}

TYPED_TEST(GradientTapeTest, refuses_what_has_no_gradient) {
  using Error = std::logic_error;
  GradientTape tape(this->device());
  auto const x = this->ones({3});
  auto const stranger = this->ones({});
  EXPECT_THAT(message_of<Error>([&] { tape.backward(stranger); }), HasSubstr("did not record"));
  auto const y = ops::scale(tape, x, 2.0F);
  expect_refused([&] { tape.backward(y); }, "backward", "[3]");
  EXPECT_THAT(message_of<Error>([&] { (void)tape.gradient(x); }), HasSubstr("[3]"));
  auto const loss = ops::sum(tape, y);
  EXPECT_THAT(message_of<Error>([&] { (void)tape.gradient(x); }),
              HasSubstr("backward() was not called"));
  expect_refused([&] { tape.add_gradient(x, this->ones({2})); }, "gradient", "[2]", "[3]");
  tape.backward(loss);
  EXPECT_THAT(to_host(tape.gradient(x)), Each(2.0F));
  EXPECT_THAT(message_of<Error>([&] { tape.backward(loss); }),
              HasSubstr("or has dropped since, as an earlier backward() and clear() do"));
  auto const why_none = [&](auto const& tensor) {
    return message_of<Error>([&] { (void)tape.gradient(tensor); });
  };
  EXPECT_THAT(why_none(stranger), HasSubstr("the loss does not depend on it"));
  tape.without_gradient(stranger);
  EXPECT_THAT(why_none(stranger), HasSubstr("it is excluded by without_gradient()"));
  auto frozen = this->ones({2});
  frozen.freeze();
  EXPECT_THAT(why_none(frozen), HasSubstr("it is frozen"));
}

TYPED_TEST(GradientTapeTest, clear_forgets_records_gradients_and_exclusions) {
  GradientTape tape(this->device());
  auto const x = this->ones({3});
  tape.without_gradient(x);
  auto const loss = ops::sum(tape, x);
  tape.clear();
  EXPECT_TRUE(tape.wants_gradient(x));
  EXPECT_THROW(tape.backward(loss), std::logic_error);
  tape.backward(ops::sum(tape, x));
  tape.clear();
  EXPECT_THROW((void)tape.gradient(x), std::logic_error);
}

TYPED_TEST(GradientTapeTest, a_pause_records_nothing_and_nests) {
  GradientTape tape(this->device());
  auto const x = this->ones({3});
  using Pause = typename GradientTape<TypeParam>::Pause;
  {
    Pause const outer(tape);
    { Pause const inner(tape); }
    EXPECT_THROW(tape.backward(ops::sum(tape, x)), std::logic_error);
    tape.without_gradient(x);
  }
  tape.backward(ops::sum(tape, x));
  EXPECT_THAT(to_host(tape.gradient(x)), Each(1.0F));
}

TYPED_TEST(GradientTapeTest, gradients_of_several_backwards_add_until_clear) {
  GradientTape tape(this->device());
  auto const x = this->ones({3});
  tape.backward(ops::sum(tape, ops::scale(tape, x, 2.0F)));
  tape.backward(ops::sum(tape, ops::scale(tape, x, 3.0F)));
  EXPECT_THAT(to_host(tape.gradient(x)), Each(5.0F));
}

TYPED_TEST(GradientTapeTest, parts_of_a_gradient_are_added_in_playing_order_on_any_groups) {
  Floats const factors = {1e8F, 3.1F, -1e8F, 0.7F, 1e-3F, 12345.678F};
  float expected = factors.back();
  for (auto i = factors.size() - 1; i-- > 0;) {
    expected += factors[i];
  }
  for (int const groups : {1, 2, 4, 8}) {
    StreamPool pool(this->device(), {.groups = groups});
    GradientTape tape(this->device());
    auto const x = this->ones({100});
    std::vector<Tensor<float, TypeParam>> branches;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      StreamScope const branch(pool[static_cast<int>(i) % groups], {.include_grad = true});
      branches.push_back(ops::scale(tape, x, factors[i]));
    }
    tape.backward(ops::sum(tape, ops::add(tape, branches)));
    EXPECT_THAT(to_host(tape.gradient(x)), Each(expected)) << groups << " groups";
  }
}

TYPED_TEST(GradientTapeTest,
           a_backward_runs_on_the_group_of_its_scope_or_where_backward_is_called) {
  StreamPool pool(this->device(), {.groups = 4});
  GradientTape tape(this->device());
  auto const x = this->ones({8});
  auto const scaled_in = [&](int group, StreamScopeOptions const& options) {
    StreamScope const scope(pool[group], options);
    NameScope const name(options.include_grad ? "kept" : "not kept");
    return ops::scale(tape, x, 2.0F);
  };
  auto const sum = ops::add(tape,
                            std::vector{scaled_in(1, {.include_grad = true}),
                                        scaled_in(2, {.include_grad = false}),
                                        scaled_in(3, {.include_grad = true})});
  auto const loss = ops::sum(tape, sum);
  StreamScope const outer(pool[0]);
  this->device().start_spans();
  tape.backward(loss);
  auto const timeline = this->device().stop_spans();
  std::vector<std::string> lanes;
  for (auto const& span : timeline.spans()) {
    if (span.name.ends_with("/scale")) {
      lanes.push_back(span.name + " on " + span.lane);
    }
  }
  EXPECT_THAT(lanes,
              ::testing::UnorderedElementsAre("gradients/kept/scale on group 3 compute",
                                              "gradients/not kept/scale on group 0 compute",
                                              "gradients/kept/scale on group 1 compute"));
}

TYPED_TEST(GradientTapeTest, no_operation_makes_a_gradient_for_an_excluded_or_frozen_tensor) {
  GradientTape tape(this->device());
  auto const expect_none = [&](auto const& data, auto make_loss) {
    tape.backward(make_loss());
    EXPECT_THROW((void)tape.gradient(data), std::logic_error);
    tape.clear();
  };
  for (bool const frozen : {true, false}) {
    auto x = this->ones({4, 3});
    auto const w = this->ones({3, 2});
    auto const b = this->ones({2});
    auto const exclude = [&] { frozen ? x.freeze() : tape.without_gradient(x); };
    auto const check = [&](auto op) {
      exclude();
      expect_none(x, [&] { return ops::sum(tape, op()); });
    };
    check([&] { return x; });
    check([&] { return ops::mean(tape, x); });
    check([&] { return ops::scale(tape, x, 2.0F); });
    check([&] { return ops::sigmoid(tape, x); });
    check([&] { return ops::dense(tape, x, w, b); });
    check([&] {
      return ops::dense(tape, w.reshaped({2, 3}), x.reshaped({3, 4}), this->ones({4}));
    });
    check([&] { return ops::add(tape, std::vector{x, this->ones({4, 3})}); });
    check([&] { return ops::concat(tape, std::vector{x, this->ones({4, 1})}); });
    check([&] { return ops::mean_bce_with_logits(tape, x, this->ones({4, 3})); });
    check([&] {
      return ops::segment_reduce(tape, x, this->put(Integers{0, 1, 4}), ops::SegmentReduction::sum);
    });
    exclude();
    tape.backward(ops::sum(tape, ops::embedding_lookup(tape, x, {this->put(Integers{1, 2})})));
    EXPECT_TRUE(tape.row_gradients(x).empty());
    tape.clear();
  }
}

TYPED_TEST(GradientTapeTest, an_excluded_result_stops_the_gradient) {
  GradientTape tape(this->device());
  auto const x = this->ones({4});
  auto const y = ops::scale(tape, x, 2.0F);
  tape.without_gradient(y);
  auto const z = ops::scale(tape, x, 3.0F);
  tape.backward(ops::sum(tape, ops::add(tape, std::vector{y, z})));
  EXPECT_THAT(to_host(tape.gradient(x)), Each(3.0F));
}

TYPED_TEST(GradientTapeTest, an_exclusion_does_not_pass_to_the_next_tensor_in_the_memory) {
  GradientTape tape(this->device());
  { tape.without_gradient(this->ones({64})); }
  auto const next = this->ones({64});
  tape.backward(ops::sum(tape, ops::add(tape, std::vector{next})));
  EXPECT_THAT(to_host(tape.gradient(next)), Each(1.0F));
}

TYPED_TEST(GradientTapeTest, a_gradient_does_not_pass_to_the_next_tensor_in_the_memory) {
  GradientTape tape(this->device());
  for (int pass = 0; pass < 3; ++pass) {
    auto const data = this->ones({64});
    tape.backward(ops::sum(tape, ops::scale(tape, data, 2.0F)));
    EXPECT_THAT(to_host(tape.gradient(data)), Each(2.0F)) << "pass " << pass;
  }
}

TYPED_TEST(GradientTapeTest, row_gradients_do_not_pass_to_the_next_table_in_the_memory) {
  GradientTape tape(this->device());
  for (int pass = 0; pass < 3; ++pass) {
    auto const table = this->ones({8, 8});
    tape.backward(ops::sum(tape, ops::embedding_lookup(tape, table, {this->put(Integers{1, 2})})));
    EXPECT_EQ(tape.row_gradients(table).size(), 1U) << "pass " << pass;
  }
}

TYPED_TEST(GradientTapeTest, holds_what_the_backward_needs_when_all_handles_are_gone) {
  GradientTape tape(this->device());
  auto const weight = this->random_tensor({5, 4});
  auto const bias = this->random_tensor({4});
  auto const data = this->random.reals(6 * 5);
  auto const gradient_of = [&](bool drop) {
    std::optional x(this->put(data, {6, 5}));
    std::optional h(ops::dense(tape, *x, weight, bias, ops::Activation::relu));
    std::optional y(ops::sigmoid(tape, *h));
    auto const loss = ops::mean(tape, *y);
    std::vector<Tensor<float, TypeParam>> noise;
    if (drop) {
      x.reset();
      h.reset();
      y.reset();
      for (auto const& shape : {Shape{6, 5}, Shape{6, 4}, Shape{6, 4}, Shape{}}) {
        fill_bytes(noise.emplace_back(this->device(), shape), kPoisonByte);
      }
    }
    tape.backward(loss);
    auto const gradient = to_host(tape.gradient(weight));
    tape.clear();
    return gradient;
  };
  auto const kept = gradient_of(false);
  EXPECT_THAT(gradient_of(true), ::testing::ElementsAreArray(kept));
}

TYPED_TEST(GradientTapeTest, a_tensor_and_its_reshaped_view_share_a_gradient) {
  GradientTape tape(this->device());
  auto const x = this->ones({6, 1});
  auto const weight = this->ones({1, 1});
  auto const h = ops::dense(tape, x, weight, this->ones({1}));  // of shape [6, 1]
  auto const flat = ops::scale(tape, h.reshaped({6}), 2.0F);
  auto const upright = ops::scale(tape, h, 3.0F);
  tape.backward(ops::sum(tape, ops::add(tape, std::vector{flat, upright.reshaped({6})})));
  EXPECT_THAT(to_host(tape.gradient(weight)), ElementsAre(30.0F));
  EXPECT_EQ(tape.gradient(x).shape(), (Shape{6, 1}));
  EXPECT_EQ(tape.gradient(x.reshaped({2, 3})).shape(), (Shape{2, 3}));
}

TYPED_TEST(GradientTapeTest, rows_of_a_leaf_have_their_part_of_its_gradient) {
  GradientTape tape(this->device());
  auto const both = this->ones({4, 2});
  auto const upper = ops::scale(tape, both.rows(0, 2), 2.0F);
  auto const lower = ops::scale(tape, both.rows(2, 4), 3.0F);
  tape.backward(ops::sum(tape, ops::add(tape, std::vector{upper, lower})));
  EXPECT_THAT(to_host(tape.gradient(both.rows(0, 2))), Each(2.0F));
  EXPECT_THAT(to_host(tape.gradient(both.rows(2, 4))), Each(3.0F));
  EXPECT_THAT(to_host(tape.gradient(both)), ElementsAre(2, 2, 2, 2, 3, 3, 3, 3));
}

TYPED_TEST(GradientTapeTest, lookups_share_a_grouping_only_of_the_same_bags) {
  auto const table = this->ones({8, 1});
  auto const ids = this->put(Integers{1, 2, 3, 1, 2, 1});
  auto const bags_until = [&](std::int64_t end) {
    return ops::Bags<TypeParam>(ids, this->put(Integers{0, 2, end}));
  };
  auto few = ops::Bags<TypeParam>(ids);
  few.bag_count = this->scalar(2);
  auto pairs = ops::Bags<TypeParam>(ids.reshaped({3, 2}));
  pairs.bag_count = this->scalar(2);
  std::vector<std::pair<ops::Bags<TypeParam>, Floats>> const expected = {
      {bags_until(6), {3, 2, 1}},
      {bags_until(3), {1, 1, 1}},
      {few, {1, 1}},
      {pairs, {2, 1, 1}},
      {ids, {3, 2, 1}},
  };
  GradientTape tape(this->device());
  std::vector<Tensor<float, TypeParam>> sums;
  for (auto const& [bags, gradient] : expected) {
    sums.push_back(ops::sum(tape, ops::embedding_lookup(tape, table, bags)));
  }
  tape.backward(ops::add(tape, sums));
  auto const& parts = tape.row_gradients(table);
  ASSERT_EQ(parts.size(), expected.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto const& wanted = expected[parts.size() - 1 - i].second;  // backward goes in reverse order
    auto const& rows = parts[i].rows;
    auto const count = to_host(rows.count).front();
    ASSERT_EQ(count, static_cast<std::int64_t>(wanted.size())) << "part " << i;
    EXPECT_THAT(to_host(rows.values.rows(0, count)), ::testing::ElementsAreArray(wanted));
  }
}

TYPED_TEST(GradientTapeTest, lookups_of_the_same_bags_group_them_once) {
  auto const first = this->ones({8, 4});
  auto const second = this->ones({8, 1});
  ops::Bags<TypeParam> const bags = this->put(Integers{1, 2, 3, 1});
  GradientTape tape(this->device());
  auto const loss =
      ops::add(tape,
               std::vector{ops::sum(tape, ops::embedding_lookup(tape, first, bags)),
                           ops::sum(tape, ops::embedding_lookup(tape, second, bags))});
  this->device().start_spans();
  tape.backward(loss);
  auto const timeline = this->device().stop_spans();
  EXPECT_EQ(
      std::ranges::count(timeline.spans(), "gradients/deduplicate", &trace::Timeline::Span::name),
      1);
}

TYPED_TEST(GradientTapeTest, a_backward_that_throws_leaves_a_tape_that_clear_makes_usable) {
  GradientTape tape(this->device());
  auto const x = this->ones({});
  auto const broken = this->ones({});
  tape.record(
      "broken", broken, [](auto&, auto const&) { throw std::runtime_error("no gradient"); });
  EXPECT_THROW(tape.backward(broken), std::runtime_error);
  tape.clear();
  tape.backward(ops::sum(tape, x));
  EXPECT_THAT(to_host(tape.gradient(x)), Each(1.0F));
}

}  // namespace
}  // namespace msstream::testing
