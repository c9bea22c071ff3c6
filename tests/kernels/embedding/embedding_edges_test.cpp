// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding_fixture.hpp"

#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
float const kFloatNan = std::nanf("");

template <class Stream>
class EmbeddingEdgesTest : public EmbeddingTest<Stream> {
 protected:
  /// Pools all rows of a table of one column in a single bag.
  Found pool_all(Floats const& table, Pooling pooling, Floats const& weights = {}) {
    Integers ids;
    for (std::size_t row = 0; row < table.size(); ++row) {
      ids.push_back(static_cast<std::int64_t>(row));
    }
    auto lookup = fixed(ids, static_cast<std::int64_t>(table.size()));
    lookup.rows = lookup.hotness;
    lookup.width = 1;
    lookup.pooling = pooling;
    lookup.weights = weights;
    return this->look_up(lookup, table);
  }
};
TYPED_TEST_SUITE(EmbeddingEdgesTest, StreamKinds, StreamKindName);

TYPED_TEST(EmbeddingEdgesTest, counts_every_id_out_of_range_once) {
  for (auto const pooling : {Pooling::sum, Pooling::max, Pooling::none}) {
    for (auto const width : kWidths) {
      auto bags = this->random_bags(200, 9, 5);
      bags.existing = 150;
      for (auto lookup : {bags, fixed(this->random.integers(500, -50, 99), 1)}) {
        lookup.width = width;
        lookup.pooling = pooling;
        lookup.default_id = pooling == Pooling::none ? -1 : 3;
        auto const bad_ids = this->upload(std::vector<std::uint64_t>{1000});
        this->look_up(lookup, this->table_of(lookup), {bad_ids.data(), nullptr, 0});
        EXPECT_EQ(this->read(bad_ids)[0],
                  1000U + static_cast<std::uint64_t>(lookup.out_of_range()));
      }
    }
  }
}

TYPED_TEST(EmbeddingEdgesTest, no_bad_id_reaches_the_table) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (auto const width : kWidths) {
    for (auto const dtype : {DType::int32, DType::int64}) {
      Integers ids{-1, 50, 1, 51, kMost, -kMost - 1};
      if (dtype == DType::int64) {
        ids.insert(ids.end(), {kMost + 1, kMost + 2, std::int64_t{1} << 32, std::int64_t{1} << 40});
        ids.insert(ids.end(), {(std::int64_t{1} << 32) - 1, std::int64_t{-1} << 40});
      }
      for (std::int64_t const hotness : {1, 2}) {
        auto lookup = fixed(ids, hotness);
        lookup.id_dtype = dtype;
        lookup.width = width;
        this->expect_pooled(lookup);
      }
    }
  }
  auto lookup = fixed({0, -1, 5}, 1);
  lookup.rows = 0;
  this->expect_pooled(lookup);
}

TYPED_TEST(EmbeddingEdgesTest, trap_keeps_the_first_bad_id_and_no_other) {
  auto const trap = this->pinned(IdTrap{});
  IdReport const report{nullptr, trap.data(), 5};
  for (std::int64_t const hotness : {1, 2}) {
    *trap.data() = IdTrap{};
    auto lookup = fixed(this->random.integers(600, 0, 49), hotness);
    auto const table = this->table_of(lookup);
    this->look_up(lookup, table, report);
    EXPECT_EQ(trap.data()->set, 0U) << "no id was bad";

    lookup.ids[401] = lookup.rows;
    this->look_up(lookup, table, report);
    EXPECT_EQ(trap.data()->set, 1U);
    EXPECT_EQ(trap.data()->operation, 5U);
    EXPECT_EQ(trap.data()->caught.id, lookup.rows);
    EXPECT_EQ(trap.data()->caught.rows, lookup.rows);

    lookup.ids[401] = -1;
    this->look_up(lookup, table, report);
    EXPECT_EQ(trap.data()->caught.id, lookup.rows) << "a sprung trap is not written again";
  }
}

TYPED_TEST(EmbeddingEdgesTest, divided_by_no_weight_is_zero) {
  for (auto const pooling : {Pooling::mean, Pooling::sqrtn}) {
    EXPECT_EQ(this->pool_all({3, 5}, pooling, {0, 0}).output, Floats{0});
  }
  EXPECT_EQ(this->pool_all({3, 5}, Pooling::mean, {2, -2}).output, Floats{0});
  EXPECT_EQ(this->pool_all({3, 5}, Pooling::sum, {2, -2}).output, Floats{-4});
  EXPECT_TRUE(std::isnan(this->pool_all({3, 5}, Pooling::mean, {kFloatNan, 1}).output[0]));
  // The weight of a bad id does not count, and a bag whose only valid id has weight 0 is not empty.
  auto lookup = fixed({-1, 1, 99, 98}, 2);
  lookup.weights = {kFloatNan, 0, kFloatInfinity, 1};
  lookup.width = 1;
  lookup.default_id = 2;
  for (auto const pooling : {Pooling::sum, Pooling::mean, Pooling::sqrtn}) {
    lookup.pooling = pooling;
    auto const table = this->table_of(lookup);
    EXPECT_TRUE(are_same(this->look_up(lookup, table).output, {table[1] * 0 + 0, table[2]}));
  }
}

TYPED_TEST(EmbeddingEdgesTest, nan_and_infinity_go_where_arithmetic_takes_them) {
  EXPECT_EQ(this->pool_all({1, kFloatInfinity, 2}, Pooling::mean).output, Floats{kFloatInfinity});
  EXPECT_TRUE(
      std::isnan(this->pool_all({kFloatInfinity, 1, -kFloatInfinity}, Pooling::sum).output[0]));
  EXPECT_TRUE(std::isnan(this->pool_all({1, kFloatNan}, Pooling::sqrtn).output[0]));
  EXPECT_TRUE(std::isnan(this->pool_all({kFloatInfinity}, Pooling::sum, {0}).output[0]));
  EXPECT_EQ(this->pool_all({-kFloatInfinity, -kFloatInfinity}, Pooling::max).output,
            Floats{-kFloatInfinity});
  auto const found = this->pool_all({3, kFloatNan, 9, kFloatNan}, Pooling::max);
  EXPECT_TRUE(std::isnan(found.output[0]));
  EXPECT_EQ(found.argmax, std::vector<std::int32_t>{1});
}

TYPED_TEST(EmbeddingEdgesTest, the_first_of_equal_rows_is_the_maximum) {
  auto const found = this->pool_all({1, 4, 2, 4, 4}, Pooling::max);
  EXPECT_EQ(found.output, Floats{4});
  EXPECT_EQ(found.argmax, std::vector<std::int32_t>{1});
  EXPECT_EQ(this->pool_all({-kFloatInfinity}, Pooling::max).argmax, std::vector<std::int32_t>{0});
}

TYPED_TEST(EmbeddingEdgesTest, minus_zero_is_kept_where_nothing_is_added) {
  EXPECT_TRUE(are_same(this->pool_all({-0.0F}, Pooling::sum).output, {0.0F}));
  EXPECT_TRUE(are_same(this->pool_all({-0.0F}, Pooling::none).output, {-0.0F}));
  EXPECT_TRUE(are_same(this->pool_all({-0.0F, 0.0F}, Pooling::max).output, {-0.0F}));
  EXPECT_TRUE(are_same(this->pool_all({0.0F, -0.0F}, Pooling::max).output, {0.0F}));
}

TYPED_TEST(EmbeddingEdgesTest, refuses_what_is_no_real_number_or_no_id) {
  auto const refused = [&](DType table, DType output, DType ids) {
    LookupArgs args{};
    args.table_dtype = table;
    args.output_dtype = output;
    args.bags.id_dtype = ids;
    args.width = 1;
    for (auto const bags : {1, 0}) {
      args.bags.bags = bags;
      EXPECT_THROW(embedding_lookup(this->stream(), args), std::invalid_argument)
          << bags << " bags of " << name_of(ids) << ", " << name_of(table) << ", "
          << name_of(output);
    }
  };
  refused(DType::int32, DType::float32, DType::int64);
  refused(DType::float32, DType::int64, DType::int64);
  refused(DType::float32, DType::float32, DType::uint8);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
