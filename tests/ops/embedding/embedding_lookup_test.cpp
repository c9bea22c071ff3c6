// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/bags.hpp>
#include <msstream/ops/embedding.hpp>

#include <limits>

namespace msstream::testing {
namespace {

using ops::Bags;
using ops::IdTensor;
using ops::OutOfRange;
using ops::Pooling;
using ::testing::ElementsAre;
using Numbers = std::vector<std::int32_t>;

template <class R>
class EmbeddingLookupTest : public OpsTest<R> {
 protected:
  using Options = ops::LookupOptions<R>;

  /// Returns a table of one column with rows 1, 2, 4, …: a sum reveals which rows were added.
  [[nodiscard]] Tensor<float, R> powers_of_two() const {
    return this->put(Floats{1, 2, 4, 8, 16, 32}, {6, 1});
  }
  /// Returns three bags with the ids {0, 3}, none and {5}, once for each type of ids.
  [[nodiscard]] std::vector<Bags<R>> three_bags() const {
    return {Bags<R>(this->put(Integers{0, 3, 5}), this->put(Integers{0, 2, 2, 3})),
            Bags<R>(this->put(Numbers{0, 3, 5}), this->put(Numbers{0, 2, 2, 3}))};
  }
};
TYPED_TEST_SUITE(EmbeddingLookupTest, Runtimes, RuntimeNames);

TYPED_TEST(EmbeddingLookupTest, pools_ids_of_both_types_in_each_way) {
  auto const table = this->powers_of_two();
  for (auto const& bags : this->three_bags()) {
    auto const pooled = [&](Pooling pooling) {
      return to_host(ops::embedding_lookup(table, bags, {.pooling = pooling}));
    };
    EXPECT_THAT(pooled(Pooling::sum), ElementsAre(9, 0, 32));
    EXPECT_THAT(pooled(Pooling::mean), ElementsAre(4.5F, 0, 32));
    EXPECT_THAT(pooled(Pooling::sqrtn), ElementsAre(9 / std::sqrt(2.0F), 0, 32));
    EXPECT_THAT(pooled(Pooling::max), ElementsAre(8, 0, 32));
    EXPECT_THAT(pooled(Pooling::none), ElementsAre(1, 8, 32));
  }
}

TYPED_TEST(EmbeddingLookupTest, multiplies_rows_with_the_weights_of_their_ids) {
  auto const table = this->powers_of_two();
  for (auto bags : this->three_bags()) {
    bags.weights = this->put(Floats{0.5F, 0.25F, 2});
    auto const pooled = [&](Pooling pooling) {
      return to_host(ops::embedding_lookup(table, bags, {.pooling = pooling}));
    };
    EXPECT_THAT(pooled(Pooling::sum), ElementsAre(2.5F, 0, 64));
    EXPECT_THAT(pooled(Pooling::mean), ElementsAre(2.5F / 0.75F, 0, 32));
    EXPECT_THAT(pooled(Pooling::none), ElementsAre(0.5F, 2, 64));
  }
}

TYPED_TEST(EmbeddingLookupTest, bags_without_a_valid_id_hold_the_default_one) {
  auto const table = this->powers_of_two();
  for (auto bags : this->three_bags()) {
    bags.default_id = 2;
    EXPECT_THAT(to_host(ops::embedding_lookup(table, bags)), ElementsAre(9, 4, 32));
    auto const argmax = this->template any<std::int32_t>({3, 1});
    auto const counter = this->scalar(0);
    auto const most = ops::embedding_lookup(table,
                                            bags,
                                            {.pooling = Pooling::max,
                                             .out_of_range = OutOfRange::count,
                                             .bad_id_count = counter,
                                             .argmax = argmax});
    EXPECT_THAT(to_host(most), ElementsAre(8, 4, 32));
    EXPECT_THAT(to_host(argmax), ElementsAre(1, 3 + 1, 2));
    EXPECT_THAT(to_host(counter), ElementsAre(0)) << "a default id is no bad one";
  }
}

TYPED_TEST(EmbeddingLookupTest, rounds_outputs_of_half_precision_once) {
  // The sum 2048 + 1 + 1 is 2050 in float; added in float16, each 1 would be lost.
  auto const table = this->put(Floats{2048, 1}, {2, 1});
  Bags<TypeParam> const bags(this->put(Numbers{0, 1, 1}, {1, 3}));
  EXPECT_THAT(to_doubles(to_host(ops::embedding_lookup<float16>(table, bags))), ElementsAre(2050));
  // The type bfloat16 has 8 bits of precision: 2050 lies between the bfloat16 values 2048 and 2064.
  EXPECT_THAT(to_doubles(to_host(ops::embedding_lookup<bfloat16>(table, bags))), ElementsAre(2048));
}

TYPED_TEST(EmbeddingLookupTest, bags_from_coordinates) {
  auto const table = this->powers_of_two();
  auto const expect_bags = [&](auto const& ids, auto const& bag_of_id) {
    EXPECT_THAT(to_host(ops::embedding_lookup(table, ops::coo_bags(ids, bag_of_id, 4))),
                ElementsAre(0, 2 + 4, 0, 8));
  };
  // The first and the last id belong to no bag.
  auto const ids = this->put(Integers{0, 1, 2, 3, 4});
  auto const short_ids = this->put(Numbers{0, 1, 2, 3, 4});
  auto const bag_of_id = this->put(Integers{-1, 1, 1, 3, 4});
  auto const short_bag_of_id = this->put(Numbers{-1, 1, 1, 3, 4});
  expect_bags(ids, bag_of_id);
  expect_bags(short_ids, bag_of_id);
  expect_bags(ids, short_bag_of_id);
  expect_bags(short_ids, short_bag_of_id);

  auto const nothing = this->template any<std::int32_t>({0});
  EXPECT_THAT(to_host(ops::embedding_lookup(table, ops::coo_bags(nothing, nothing, 2))),
              ElementsAre(0, 0));
  EXPECT_THAT(to_host(ops::embedding_lookup(table, ops::coo_bags(nothing, nothing, 0))),
              ElementsAre());
  expect_refused([&] { (void)ops::coo_bags(ids, nothing, 2); }, "coo_bags", "[5]", "[0]");
  expect_refused([&] { (void)ops::coo_bags(ids, bag_of_id, -2); }, "coo_bags", "-2");
}

TYPED_TEST(EmbeddingLookupTest, casts_ids_between_32_and_64_bits) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  auto const wide = this->put(Integers{-1, 0, kMost, -kMost - 1});
  auto const narrow = ops::cast_ids<std::int32_t>(IdTensor<TypeParam>(wide));
  EXPECT_THAT(to_host(narrow), ElementsAre(-1, 0, kMost, -kMost - 1));
  auto const again = ops::cast_ids<std::int64_t>(IdTensor<TypeParam>(narrow));
  EXPECT_THAT(to_host(again), ElementsAre(-1, 0, kMost, -kMost - 1));
  EXPECT_EQ(ops::cast_ids<std::int64_t>(IdTensor<TypeParam>(wide)).data(), wide.data());
  // 2^32 + 5 must not become row 5.
  auto const too_wide = this->put(Integers{(1LL << 32) + 5, kMost + 1, -kMost - 2, 5});
  EXPECT_THAT(to_host(ops::cast_ids<std::int32_t>(IdTensor<TypeParam>(too_wide))),
              ElementsAre(-1, -1, -1, 5));
}

TYPED_TEST(EmbeddingLookupTest, refuses_what_does_not_go_together) {
  auto const table = this->powers_of_two();
  auto const lookup = [&](auto const& bags, typename TestFixture::Options options) {
    return [=] { (void)ops::embedding_lookup(table, bags, options); };
  };
  Bags<TypeParam> const bags(this->put(Integers{0, 1}));
  auto weighted = bags;
  weighted.weights = this->any({2});
  expect_refused(lookup(weighted, {.pooling = Pooling::max}), "embedding_lookup", "weights");
  weighted.weights = this->any({3});
  expect_refused(lookup(weighted, {}), "weights", "[3]", "[2]");
  auto with_default = bags;
  with_default.default_id = 0;
  expect_refused(lookup(with_default, {.pooling = Pooling::none}), "embedding_lookup", "default");
  for (std::int64_t const no_row : {-1, 6}) {
    with_default.default_id = no_row;
    expect_refused(lookup(with_default, {}), "default id", no_row);
  }
  auto const argmax = this->template any<std::int32_t>({2, 1});
  expect_refused(lookup(bags, {.argmax = argmax}), "embedding_lookup", "argmax");
  expect_refused(
      lookup(bags, {.pooling = Pooling::max, .argmax = this->template any<std::int32_t>({1, 2})}),
      "argmax",
      "[1, 2]",
      "[2, 1]");
  expect_refused(
      [&] {
        Bags<TypeParam> const mixed(IdTensor<TypeParam>(this->put(Integers{0})),
                                    IdTensor<TypeParam>(this->put(Numbers{0, 1})));
      },
      "int64",
      "int32");
}

}  // namespace
}  // namespace msstream::testing
