// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/ops/jagged.hpp>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

template <class R>
class JaggedTest : public OpsTest<R> {};
TYPED_TEST_SUITE(JaggedTest, Runtimes, RuntimeNames);

TYPED_TEST(JaggedTest, goes_to_dense_and_back) {
  auto const values = this->put(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  auto const offsets = this->put(Integers{0, 1, 1, 3});
  auto const dense = ops::jagged_to_dense(values, offsets, 2, -1.0F);
  EXPECT_EQ(dense.shape(), (Shape{3, 2, 2}));
  EXPECT_THAT(to_host(dense), ElementsAre(1, 2, -1, -1, -1, -1, -1, -1, 3, 4, 5, 6));
  auto const back = ops::dense_to_jagged(dense, offsets, 4);
  EXPECT_EQ(back.shape(), (Shape{4, 2}));
  EXPECT_THAT(to_host(back), ElementsAre(1, 2, 3, 4, 5, 6, 0, 0));
}

TYPED_TEST(JaggedTest, truncates_samples_of_ids) {
  auto const ids = this->put(Integers{7, 8, 9});
  auto const offsets = this->put(Integers{0, 3});
  auto const dense = ops::jagged_to_dense(ids, offsets, 2, std::int64_t{-1});
  EXPECT_EQ(dense.shape(), (Shape{1, 2}));
  EXPECT_THAT(to_host(dense), ElementsAre(7, 8));
  EXPECT_THAT(to_host(ops::dense_to_jagged(dense, offsets, 3)), ElementsAre(7, 8, 0));
}

TYPED_TEST(JaggedTest, repeats_the_row_of_each_sample) {
  auto const offsets = this->put(Integers{1, 3, 3, 6});
  auto const rows = this->put(Floats{1, 2, 3, 4, 5, 6}, {3, 2});
  auto const repeated = ops::repeat_rows(rows, offsets, 7);
  EXPECT_EQ(repeated.shape(), (Shape{7, 2}));
  EXPECT_THAT(to_host(repeated), ElementsAre(0, 0, 1, 2, 1, 2, 5, 6, 5, 6, 5, 6, 0, 0));
  EXPECT_THAT(to_host(ops::repeat_rows(this->put(Integers{7, 8, 9}), offsets, 6)),
              ElementsAre(0, 7, 7, 9, 9, 9));
  auto const ids = ops::segment_ids(offsets, 7);
  EXPECT_THAT(to_host(ids), ElementsAre(-1, 0, 0, 2, 2, 2, -1));
  EXPECT_EQ(to_host(ops::gather_rows(rows, ids)), to_host(repeated));
}

TYPED_TEST(JaggedTest, repeats_rows_of_every_type_of_element) {
  auto const offsets = this->put(Integers{0, 1, 3});
  auto const repeated = [&]<Element T>(T) {
    auto const rows = this->put(
        std::vector<T>{
            from_float<T>(1.5F), from_float<T>(-2.0F), from_float<T>(0.25F), from_float<T>(3.0F)},
        {2, 2});
    return to_doubles(to_host(ops::repeat_rows(rows, offsets, 4)));
  };
  Doubles const expected{1.5, -2, 0.25, 3, 0.25, 3, 0, 0};
  EXPECT_EQ(repeated(float{}), expected);
  EXPECT_EQ(repeated(float16{}), expected);
  EXPECT_EQ(repeated(bfloat16{}), expected);
}

TYPED_TEST(JaggedTest, takes_what_is_empty) {
  auto const offsets = this->put(Integers{0});
  EXPECT_EQ(ops::jagged_to_dense(this->any({0, 2}), offsets, 3).shape(), (Shape{0, 3, 2}));
  EXPECT_THAT(to_host(ops::dense_to_jagged(this->any({0, 3}), offsets, 2)), ElementsAre(0, 0));
  EXPECT_THAT(to_host(ops::repeat_rows(this->any({0}), offsets, 2)), ElementsAre(0, 0));
  EXPECT_EQ(ops::repeat_rows(this->any({0, 3}), offsets, 0).shape(), (Shape{0, 3}));
  EXPECT_THAT(to_host(ops::segment_ids(offsets, 2)), ElementsAre(-1, -1));
}

TYPED_TEST(JaggedTest, refuses_shapes_that_do_not_fit) {
  auto const offsets = this->put(Integers{0, 1});
  auto const no_offsets = this->template any<std::int64_t>({0});
  expect_refused([&] { (void)ops::jagged_to_dense(this->any({}), offsets, 3); }, "jagged_to_dense");
  expect_refused([&] { (void)ops::jagged_to_dense(this->any({2}), offsets, -3); }, "-3");
  expect_refused([&] { (void)ops::jagged_to_dense(this->any({2}), no_offsets, 3); }, "[0]");
  expect_refused(
      [&] {
        (void)ops::dense_to_jagged(this->any({2, 2}), offsets, 3);
      },
      "dense_to_jagged",
      "[2, 2]",
      "[2]");
  expect_refused([&] { (void)ops::dense_to_jagged(this->any({1, 2}), offsets, -3); }, "-3");
  expect_refused([&] { (void)ops::dense_to_jagged(this->any({1}), no_offsets, 3); }, "[0]");
  expect_refused(
      [&] {
        (void)ops::repeat_rows(this->any({2, 2}), offsets, 3);
      },
      "repeat_rows",
      "[2, 2]",
      "[2]");
  expect_refused([&] { (void)ops::repeat_rows(this->any({}), offsets, 3); }, "[samples]");
  expect_refused([&] { (void)ops::repeat_rows(this->any({1}), offsets, -3); }, "-3");
  expect_refused([&] { (void)ops::repeat_rows(this->any({1}), no_offsets, 3); }, "[0]");
  expect_refused([&] { (void)ops::segment_ids(offsets, -3); }, "segment_ids", "-3");
  expect_refused([&] { (void)ops::segment_ids(no_offsets, 3); }, "segment_ids", "[0]");
}

}  // namespace
}  // namespace msstream::testing
