// SPDX-License-Identifier: Apache-2.0
#include "ops/ids/bad_offsets_fixture.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/ops/table_batch.hpp>

#include <algorithm>
#include <stdexcept>

/// Tests that all operations agree on which bags they leave out when offsets descend or lead out of
/// the values.
namespace msstream::testing {
namespace {

using ops::Bags;
using ops::OutOfRange;
using ops::Pooling;
using ops::SegmentReduction;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kRowsLookedUp = 13;

template <class R>
class BadOffsetsTest : public OffsetsFixture<R> {};
TYPED_TEST_SUITE(BadOffsetsTest, Runtimes, RuntimeNames);

/// A reference for an embedding lookup and its gradient, computed one id at a time.
struct LookupReference {
  JudgedOffsets const& judged;
  Integers const& ids;
  Doubles const& table;
  Doubles const& weights;
  std::int64_t width;
  Pooling pooling;
  bool is_weighted;

  /// Calls visit(bag, position, id, factor) for each id of a bag with good offsets.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (std::int64_t bag = 0; bag < judged.bags(); ++bag) {
      auto const [begin, end] = judged.places(bag);
      auto const weight = [&](std::int64_t place) {
        return is_weighted ? weights[at(place)] : 1.0;
      };
      double divisor = pooling == Pooling::sum ? 1.0 : 0.0;
      for (auto place = begin; place < end && pooling == Pooling::mean; ++place) {
        divisor += weight(place);
      }
      for (auto place = begin; place < end; ++place) {
        visit(bag, place, ids[at(place)], weight(place) / divisor);
      }
    }
  }
  [[nodiscard]] Doubles pooled() const {
    Doubles out(at(judged.bags() * width), 0.0);
    for_each([&](auto bag, auto, auto id, double factor) {
      for (std::int64_t c = 0; c < width; ++c) {
        out[at(bag * width + c)] += factor * table[at(id * width + c)];
      }
    });
    return out;
  }
  [[nodiscard]] Doubles table_gradient(Doubles const& gradient) const {
    Doubles out(at(kRowsLookedUp * width), 0.0);
    for_each([&](auto bag, auto, auto id, double factor) {
      for (std::int64_t c = 0; c < width; ++c) {
        out[at(id * width + c)] += factor * gradient[at(bag * width + c)];
      }
    });
    return out;
  }
};

/// Returns a row-sparse gradient as a dense gradient of `rows` rows. Reads only the first `count`
/// rows of the sparse gradient, because no kernel writes the others.
template <class R>
[[nodiscard]] Floats dense_gradient(ops::RowGradients<R> const& gradient, std::int64_t rows) {
  auto const count = to_host(gradient.count).front();
  auto const ids = to_host(gradient.ids.rows(0, count));
  auto const values = to_host(gradient.values.rows(0, count));
  auto const width = gradient.values.shape()[1];
  Floats dense(at(rows * width), 0.0F);
  for (std::int64_t u = 0; u < count; ++u) {
    std::copy_n(values.begin() + u * width, width, dense.begin() + ids[at(u)] * width);
  }
  return dense;
}

/// On CUDA, one group of lanes handles several short bags if there are many, and checks their
/// offsets together.
TYPED_TEST(BadOffsetsTest, lookups_of_many_short_bags_leave_out_the_bad_ones) {
  for (auto const& size : {Sizes{16'500, 16'000, 128}, Sizes{65'600, 70'000, 32}}) {
    auto const ids = this->random.integers(size.capacity, 0, kRowsLookedUp - 1);
    Floats table;
    auto const doubles = this->random_doubles(kRowsLookedUp * size.width, table);
    auto const on_device = this->put(table, {kRowsLookedUp, size.width});
    auto ascending = this->random.integers(size.bags + 1, 0, size.capacity);
    std::sort(ascending.begin(), ascending.end());
    for (auto const& offsets : {ascending,
                                this->bad_at_every_distance(size),
                                random_bad_offsets(this->random, size.bags, size.capacity)}) {
      JudgedOffsets const judged(offsets, size.capacity);
      LookupReference const reference{
          judged, ids, doubles, Doubles{}, size.width, Pooling::sum, false};
      auto const expected = reference.pooled();
      auto const expect_of = [&](Bags<TypeParam> const& bags) {
        auto const bad = this->scalar(10);
        auto const pooled = ops::embedding_lookup(
            on_device, bags, {.out_of_range = OutOfRange::count, .bad_id_count = bad});
        expect_near(to_host(pooled), expected, 2e-5);
        EXPECT_THAT(to_host(bad), ElementsAre(10 + judged.bad_bags()));
      };
      expect_of(Bags<TypeParam>(this->put(ids), this->put(offsets)));
      expect_of(
          Bags<TypeParam>(this->put(std::vector<std::int32_t>(ids.begin(), ids.end())),
                          this->put(std::vector<std::int32_t>(offsets.begin(), offsets.end()))));
      if (this->HasFatalFailure()) {
        return;
      }
    }
  }
}

TYPED_TEST(BadOffsetsTest, lookups_and_their_gradients_leave_out_the_same_bags) {
  this->for_all([&](Sizes const& size, Integers const& offsets, JudgedOffsets const& judged) {
    auto const ids = this->random.integers(size.capacity, 0, kRowsLookedUp - 1);
    Floats table;
    auto const table_doubles = this->random_doubles(kRowsLookedUp * size.width, table);
    auto const whole_weights = this->random.integers(size.capacity, 1, 2);
    Floats const weights(whole_weights.begin(), whole_weights.end());
    Floats gradient;
    auto const gradient_doubles = this->random_doubles(size.bags * size.width, gradient);
    auto const on_device = this->put(table, {kRowsLookedUp, size.width});
    auto const output_gradient = this->put(gradient, {size.bags, size.width});
    for (bool const is_weighted : {false, true}) {
      for (auto const pooling : {Pooling::sum, Pooling::mean}) {
        Bags<TypeParam> bags(this->put(ids), this->put(offsets));
        if (is_weighted) {
          bags.weights = this->put(weights);
        }
        LookupReference const reference{
            judged, ids, table_doubles, to_doubles(weights), size.width, pooling, is_weighted};
        auto const bad = this->scalar(10);
        auto const pooled = ops::embedding_lookup(
            on_device,
            bags,
            {.pooling = pooling, .out_of_range = OutOfRange::count, .bad_id_count = bad});
        expect_near(to_host(pooled), reference.pooled(), 2e-5);
        EXPECT_THAT(to_host(bad), ElementsAre(10 + judged.bad_bags()));
        auto const unique = ops::deduplicate(bags, kRowsLookedUp);
        auto const rows =
            ops::embedding_gradient(bags, unique, kRowsLookedUp, pooling, output_gradient);
        auto const expected = reference.table_gradient(gradient_doubles);
        expect_near(dense_gradient(rows, kRowsLookedUp), expected, 2e-4);
        if (this->HasFatalFailure()) {
          return;
        }
        auto const moved = this->put(Floats(table.size(), 0.0F), {kRowsLookedUp, size.width});
        ops::OptimizerRule const rule{.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F};
        ops::StepCounter<TypeParam> const step(this->device());
        auto const state = ops::make_state(this->device(), rule.kind, moved.shape());
        ops::update_embedding(rule, step, moved, state, bags, unique, pooling, output_gradient);
        Doubles negative;
        for (auto const value : expected) {
          negative.push_back(-value);
        }
        expect_near(to_host(moved), negative, 2e-4);
        if (is_weighted && pooling == Pooling::sum) {
          Doubles of_weights(at(size.capacity), 0.0);
          reference.for_each([&](auto bag, auto place, auto id, double) {
            for (std::int64_t c = 0; c < size.width; ++c) {
              of_weights[at(place)] += table_doubles[at(id * size.width + c)] *
                                       gradient_doubles[at(bag * size.width + c)];
            }
          });
          expect_near(to_host(ops::embedding_weight_gradient(
                          on_device, bags, Pooling::sum, output_gradient)),
                      of_weights,
                      2e-5);
        }
      }
    }
  });
}

TYPED_TEST(BadOffsetsTest, rows_of_bad_bags_alone_are_not_moved) {
  // The offsets {0, 4, 2, 5} give three bags, and only the last bag is good.
  Bags<TypeParam> const bags(this->put(Integers{0, 1, 2, 3, 4}), this->put(Integers{0, 4, 2, 5}));
  auto const unique = ops::deduplicate(bags, 6);
  EXPECT_THAT(to_host(unique.count), ElementsAre(3));
  auto const found = to_host(unique.ids);
  EXPECT_THAT(Integers(found.begin(), found.begin() + 3), ElementsAre(2, 3, 4));
  ops::OptimizerRule const rule{.kind = ops::OptimizerKind::adam, .learning_rate = 1.0F};
  ops::StepCounter<TypeParam> step(this->device());
  step.advance(rule);
  auto const table = this->put(Floats(6, 0.0F), {6, 1});
  auto const state = ops::make_state(this->device(), rule.kind, table.shape());
  // With momentum in all rows, an update moves every listed row, whatever its gradient is.
  copy(*state.first, this->put(Floats(6, 1.0F), {6, 1}));
  copy(*state.second, this->put(Floats(6, 1.0F), {6, 1}));
  auto const gradient = this->put(Floats{1, 1, 1}, {3, 1});
  ops::update_embedding(rule, step, table, state, bags, unique, Pooling::sum, gradient);
  auto const moved = to_host(table);
  for (auto const row : {0, 1, 5}) {
    EXPECT_EQ(moved[at(row)], 0.0F) << row;
  }
  for (auto const row : {2, 3, 4}) {
    EXPECT_NE(moved[at(row)], 0.0F) << row;
  }
}

TYPED_TEST(BadOffsetsTest, without_pooling_each_id_has_its_row_both_ways) {
  Bags<TypeParam> const bags(this->put(Integers{0, 1, 2, 3, 4}), this->put(Integers{0, 4, 2, 5}));
  auto const table = this->put(Floats{1, 2, 4, 8, 16}, {5, 1});
  EXPECT_THAT(to_host(ops::embedding_lookup(table, bags, {.pooling = Pooling::none})),
              ElementsAre(1, 2, 4, 8, 16));
  auto const gradient = this->put(Floats{1, 2, 3, 4, 5}, {5, 1});
  auto const rows = ops::embedding_gradient(
      bags, ops::deduplicate(bags, 5, Pooling::none), 5, Pooling::none, gradient);
  EXPECT_THAT(dense_gradient(rows, 5), ElementsAre(1, 2, 3, 4, 5));
}

TYPED_TEST(BadOffsetsTest, int32_offsets_maxima_and_default_ids_leave_out_the_same_bags) {
  this->for_all([&](Sizes const& size, Integers const& offsets, JudgedOffsets const& judged) {
    auto const ids = this->random.integers(size.capacity, 0, kRowsLookedUp - 1);
    auto const table = this->random.reals(kRowsLookedUp * size.width);
    auto const narrow = [](Integers const& values) {
      return std::vector<std::int32_t>(values.begin(), values.end());
    };
    Bags<TypeParam> bags(this->put(narrow(ids)), this->put(narrow(offsets)));
    bags.default_id = 2;
    Tensor<std::int32_t, TypeParam> const argmax(this->device(), {size.bags, size.width});
    auto const rows = this->put(table, {kRowsLookedUp, size.width});
    auto const pooled =
        ops::embedding_lookup(rows, bags, {.pooling = Pooling::max, .argmax = argmax});
    Doubles expected;
    Doubles expected_gradient(table.size(), 0.0);
    for (std::int64_t bag = 0; bag < size.bags; ++bag) {
      auto const [begin, end] = judged.places(bag);
      for (std::int64_t c = 0; c < size.width; ++c) {
        auto largest = begin < end ? ids[at(begin)] : 2;
        for (auto place = begin; place < end; ++place) {
          auto const id = ids[at(place)];
          largest =
              table[at(id * size.width + c)] > table[at(largest * size.width + c)] ? id : largest;
        }
        expected.push_back(table[at(largest * size.width + c)]);
        expected_gradient[at(largest * size.width + c)] += 1.0;
      }
    }
    expect_near(to_host(pooled), expected);
    auto const unique = ops::deduplicate(bags, kRowsLookedUp);
    auto const ones = this->put(Floats(expected.size(), 1.0F), {size.bags, size.width});
    auto const gradient =
        ops::embedding_gradient(bags, unique, kRowsLookedUp, Pooling::max, ones, {argmax});
    expect_near(dense_gradient(gradient, kRowsLookedUp), expected_gradient, 1e-5);
  });
}

TYPED_TEST(BadOffsetsTest, many_tables_leave_out_the_same_bags) {
  this->for_all([&](Sizes const& size, Integers const& offsets, JudgedOffsets const& judged) {
    if (size.bags % 2 != 0) {
      return;
    }
    auto const batch = size.bags / 2;
    auto const ids = this->random.integers(size.capacity, 0, kRowsLookedUp - 1);
    Floats floats;
    auto const table = this->random_doubles(kRowsLookedUp * size.width, floats);
    Floats gradient_floats;
    auto const gradient = this->random_doubles(size.bags * size.width, gradient_floats);
    auto const weights = this->put(floats, {kRowsLookedUp, size.width});
    ops::EmbeddingTables<TypeParam> const tables(
        this->device(), {{.weights = weights}, {.weights = weights, .pooling = Pooling::mean}});
    ops::TableBags<TypeParam> const bags{
        .ids = this->put(ids), .batch = batch, .offsets = this->put(offsets)};
    Doubles expected(at(size.bags * size.width), 0.0);
    Doubles expected_gradient(at(2 * kRowsLookedUp * size.width), 0.0);
    for (std::int64_t number = 0; number < 2; ++number) {
      for (std::int64_t bag = 0; bag < batch; ++bag) {
        auto const [begin, end] = judged.places(number * batch + bag);
        for (auto place = begin; place < end; ++place) {
          auto const row = ids[at(place)];
          auto const by = number == 0 ? 1.0 : static_cast<double>(end - begin);
          for (std::int64_t c = 0; c < size.width; ++c) {
            auto const element = at(bag * 2 * size.width + number * size.width + c);
            expected[element] += table[at(row * size.width + c)] / by;
            expected_gradient[at((number * kRowsLookedUp + row) * size.width + c)] +=
                gradient[element] / by;
          }
        }
      }
    }
    auto const bad = this->scalar(0);
    auto const pooled = ops::embedding_lookup(
        tables, bags, {.out_of_range = OutOfRange::count, .bad_id_count = bad});
    expect_near(to_host(pooled), expected, 2e-5);
    EXPECT_THAT(to_host(bad), ElementsAre(judged.bad_bags()));
    auto const rows = ops::embedding_tables_gradient(
        tables, bags, this->put(gradient_floats, {batch, 2 * size.width}));
    expect_near(dense_gradient(ops::RowGradients<TypeParam>{rows.rows, rows.count, rows.values},
                               2 * kRowsLookedUp),
                expected_gradient,
                2e-4);
  });
}

TYPED_TEST(BadOffsetsTest, what_has_nothing_to_write_reports_bad_bags) {
  auto const in_none = this->put(Integers{0, 1, 0, 0, -2});  // three bad bags
  auto const in_four = this->put(Integers{0, 2, 9, 4, 4});   // two bad bags
  auto const bad_bags_of = [&](auto const& run) {
    auto const bad = this->scalar(0);
    (void)run(ops::OffsetPolicy<TypeParam>{OutOfRange::count, bad});
    auto const bad_bags = to_host(bad).front();
    EXPECT_THAT(message_of<std::out_of_range>(
                    [&] { (void)to_host(run(ops::OffsetPolicy<TypeParam>{OutOfRange::trap})); }),
                HasSubstr("expected offsets that ascend within"));
    return bad_bags;
  };
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::dense_to_jagged(this->any({4, 2, 3}), in_none, 0, policy);
            }),
            3);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::dense_to_jagged(this->any({4, 2, 0}), in_four, 4, policy);
            }),
            2);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::dense_to_jagged(this->any({4, 0, 3}), in_four, 4, policy);
            }),
            2);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::jagged_to_dense(this->any({4, 3}), in_four, 0, 1.0F, policy);
            }),
            2);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::jagged_to_dense(this->any({4, 0}), in_four, 2, 1.0F, policy);
            }),
            2);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::jagged_to_dense(this->any({0, 3}), in_none, 2, 1.0F, policy);
            }),
            3);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::repeat_rows(this->any({4, 3}), in_none, 0, policy);
            }),
            3);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) {
              return ops::repeat_rows(this->any({4, 0}), in_four, 4, policy);
            }),
            2);
  EXPECT_EQ(bad_bags_of([&](auto const& policy) { return ops::segment_ids(in_none, 0, policy); }),
            3);
  for (auto const& shape : {Shape{4, 0}, Shape{0, 2}}) {
    auto const& offsets = shape[0] == 0 ? in_none : in_four;
    auto const bad = shape[0] == 0 ? 3 : 2;
    EXPECT_EQ(bad_bags_of([&](auto const& policy) {
                return ops::jagged_softmax(this->any(shape), offsets, policy);
              }),
              bad);
    EXPECT_EQ(
        bad_bags_of([&](auto const& policy) {
          return ops::segment_reduce(this->any(shape), {offsets, policy}, SegmentReduction::sum);
        }),
        bad)
        << shape;
  }
}

TYPED_TEST(BadOffsetsTest, a_trap_names_the_bag_its_offsets_and_what_was_expected) {
  auto const values = this->put(Floats{1, 2, 3, 4, 5}, {5, 1});
  auto const ids = this->put(Integers{0, 1, 2, 3, 4});
  auto const trapped = [&](Integers const& offsets, auto const& run) {
    auto const index = this->put(offsets);
    auto const message = message_of<std::out_of_range>([&] { (void)to_host(run(index)); });
    // Runs the operation with good offsets: once the exception has been caught, the device is
    // usable again.
    (void)to_host(run(this->put(Integers{0, 2, 2, 5})));
    return message;
  };
  auto const lookup = [&](auto const& index) {
    return ops::embedding_lookup(
        values, Bags<TypeParam>(ids, index), {.out_of_range = OutOfRange::trap});
  };
  ops::OffsetPolicy<TypeParam> const trap{OutOfRange::trap};
  EXPECT_THAT(trapped({0, 3, 2, 2}, lookup),
              AllOf(HasSubstr("embedding_lookup: bag "), HasSubstr("ascend within [0, 5]")));
  EXPECT_EQ(
      trapped({0, 2, 5, 9}, lookup),
      "embedding_lookup: bag 2 from offset 5 to 9; expected offsets that ascend within [0, 5]");
  EXPECT_THAT(trapped({-1, 2, 2, 5},
                      [&](auto const& index) {
                        return ops::segment_reduce(values, {index, trap}, SegmentReduction::sum);
                      }),
              HasSubstr("segment_reduce: bag 0 from offset -1 to 2"));
  EXPECT_THAT(trapped({0, 2, 5, 6},
                      [&](auto const& index) { return ops::jagged_softmax(values, index, trap); }),
              HasSubstr("jagged_softmax: bag 2 from offset 5 to 6"));
  EXPECT_THAT(trapped({0, 2, 5, 6},
                      [&](auto const& index) {
                        return ops::jagged_to_dense(values, index, 2, 0.0F, trap);
                      }),
              HasSubstr("jagged_to_dense: bag 2 from offset 5 to 6"));
  EXPECT_THAT(
      trapped({0, 2, 5, 6},
              [&](auto const& index) {
                return ops::dense_to_jagged(this->any({3, 2, 1}), index, std::int64_t{5}, trap);
              }),
      HasSubstr("dense_to_jagged: bag 2 from offset 5 to 6"));
  EXPECT_THAT(trapped({0, 2, 5, 6},
                      [&](auto const& index) {
                        return ops::repeat_rows(this->any({3, 1}), index, std::int64_t{5}, trap);
                      }),
              HasSubstr("repeat_rows: bag 2 from offset 5 to 6"));
  ops::EmbeddingTables<TypeParam> const tables(this->device(), {{.weights = values}});
  EXPECT_THAT(trapped({0, 2, 5, 6},
                      [&](auto const& index) {
                        return ops::embedding_lookup(
                            tables,
                            ops::TableBags<TypeParam>{.ids = ids, .batch = 3, .offsets = index},
                            {.out_of_range = OutOfRange::trap});
                      }),
              HasSubstr("embedding_tables_lookup: bag 2 from offset 5 to 6"));
}

TYPED_TEST(BadOffsetsTest, a_batch_of_tables_leaves_out_the_same_bags) {
  ops::TableBatch<float, TypeParam> const tables(this->device(), {2, 2}, 1);
  copy(tables.weights(), this->put(Floats{1, 2, 4, 8}, {4, 1}));
  Bags<TypeParam> const bags(this->put(Integers{0, 1, 0, 1, 1}),
                             this->put(Integers{0, 2, 3, 9, 4}));
  auto const bad = this->scalar(0);
  auto const rows = ops::rows_of_tables(tables, bags, OutOfRange::count, bad);
  EXPECT_THAT(to_host(bad), ElementsAre(2));
  EXPECT_THAT(to_host(ops::embedding_lookup(tables, rows)), ElementsAre(3, 4, 0, 0));
  auto const found = to_host(ops::hash_to_tables(tables, bags).ids.template as<std::int64_t>());
  EXPECT_EQ(found[3], -1);
}

TYPED_TEST(BadOffsetsTest, a_batch_of_tables_without_ids_reports_bad_bags) {
  ops::TableBatch<float, TypeParam> const tables(this->device(), {2}, 1);
  Bags<TypeParam> const bags(this->put(Integers{}), this->put(Integers{0, 5}));
  auto const bad = this->scalar(0);
  (void)ops::rows_of_tables(tables, bags, OutOfRange::count, bad);
  EXPECT_THAT(to_host(bad), ElementsAre(1));
}

TYPED_TEST(BadOffsetsTest, bags_that_do_not_exist_are_neither_judges_nor_reported) {
  auto const table = this->put(Floats{1, 2, 4, 8, 16}, {5, 1});
  Bags<TypeParam> bags(this->put(Integers{0, 1, 2, 3, 4}), this->put(Integers{0, 2, 5, -7, 99, 1}));
  bags.bag_count = this->scalar(2);
  auto const bad = this->scalar(0);
  EXPECT_THAT(to_host(ops::embedding_lookup(
                  table, bags, {.out_of_range = OutOfRange::count, .bad_id_count = bad})),
              ElementsAre(3, 28, 0, 0, 0));
  EXPECT_THAT(to_host(bad), ElementsAre(0));
}

TYPED_TEST(BadOffsetsTest, lengths_are_never_negative) {
  EXPECT_THAT(to_host(ops::offsets_to_lengths(this->put(Integers{0, 4, 2, 5, -1, 3}))),
              ElementsAre(4, 0, 3, 0, 0));
}

TYPED_TEST(BadOffsetsTest, a_counter_goes_with_counting) {
  auto const values = this->any({5, 1});
  auto const offsets = this->put(Integers{0, 5});
  expect_refused([&] { (void)ops::jagged_softmax(values, offsets, {OutOfRange::count}); },
                 "jagged_softmax",
                 "bad_bag_count goes with OutOfRange::count");
  expect_refused(
      [&] {
        (void)ops::jagged_softmax(
            values, offsets, {OutOfRange::count, this->template any<std::int64_t>({2})});
      },
      "bad_bag_count of shape [2]");
}

}  // namespace
}  // namespace msstream::testing
