// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

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

TYPED_TEST(JaggedTest, takes_what_is_empty) {
  auto const offsets = this->put(Integers{0});
  EXPECT_EQ(ops::jagged_to_dense(this->any({0, 2}), offsets, 3).shape(), (Shape{0, 3, 2}));
  EXPECT_THAT(to_host(ops::dense_to_jagged(this->any({0, 3}), offsets, 2)), ElementsAre(0, 0));
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
}

}  // namespace
}  // namespace msstream::testing
