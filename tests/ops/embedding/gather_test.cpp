// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/gather.hpp>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using Narrow = std::vector<std::int32_t>;

template <class R>
class GatherTest : public OpsTest<R> {};
TYPED_TEST_SUITE(GatherTest, Runtimes, RuntimeNames);

TYPED_TEST(GatherTest, gathers_rows_of_every_element_type) {
  auto const check = [&]<class T>(std::vector<T> const& table) {
    auto const found = ops::gather_rows(this->put(table, {3, 2}), this->put(Integers{2, 0, -1, 3}));
    EXPECT_EQ(found.shape(), (Shape{4, 2}));
    auto const values = to_host(found);
    std::vector<T> const expected{table[4], table[5], table[0], table[1], T{}, T{}, T{}, T{}};
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), 8 * sizeof(T)), 0);
  };
  check(Floats{1, 2, 3, 4, 5, 6});
  check(Integers{1, 2, 3, 4, 5, 6});
  check(Narrow{1, 2, 3, 4, 5, 6});
  check(std::vector<float16>{{1}, {2}, {3}, {4}, {5}, {6}});
  check(std::vector<bfloat16>{{1}, {2}, {3}, {4}, {5}, {6}});
}

TYPED_TEST(GatherTest, ids_of_any_shape_and_width_up_to_a_count) {
  auto const table = this->put(Floats{1, 2, 3, 4}, {4, 1});
  auto const found = ops::gather_rows(table, this->put(Narrow{3, 1, 0, 2}, {2, 2}));
  EXPECT_EQ(found.shape(), (Shape{2, 2, 1}));
  EXPECT_THAT(to_host(found), ElementsAre(4, 2, 1, 3));
  auto const some = ops::gather_rows(table, this->put(Integers{3, 1, 0}), this->scalar(2));
  EXPECT_THAT(to_host(some.rows(0, 2)), ElementsAre(4, 2));
}

TYPED_TEST(GatherTest, scatters_and_leads_gradients_back_to_the_places_that_counted) {
  auto const values = this->put(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  auto const ids = this->put(Integers{2, 0, 2, 9});
  EXPECT_THAT(to_host(ops::scatter_rows(values, ids, 3)), ElementsAre(3, 4, 0, 0, 5, 6));
  EXPECT_THAT(to_host(ops::scatter_rows(values, ids, 3, this->scalar(1))),
              ElementsAre(0, 0, 0, 0, 1, 2));
  auto const table = this->put(Floats{-1, -2, -3, -4, -5, -6}, {3, 2});
  ops::assign_rows(table, values, ids);
  EXPECT_THAT(to_host(table), ElementsAre(3, 4, -3, -4, 5, 6));
  EXPECT_THAT(to_host(ops::scatter_rows_gradient(table, ids)), ElementsAre(0, 0, 3, 4, 5, 6, 0, 0));
}

TYPED_TEST(GatherTest, takes_what_is_empty) {
  auto const none = this->template any<std::int64_t>({0});
  EXPECT_EQ(ops::gather_rows(this->any({3, 2}), none).shape(), (Shape{0, 2}));
  EXPECT_EQ(ops::gather_rows(this->any({3, 0}), this->put(Integers{1})).shape(), (Shape{1, 0}));
  EXPECT_THAT(to_host(ops::gather_rows(this->any({0, 2}), this->put(Integers{1}))),
              ElementsAre(0, 0));
  EXPECT_THAT(to_host(ops::scatter_rows(this->any({0, 2}), none, 1)), ElementsAre(0, 0));
  EXPECT_EQ(ops::scatter_rows(this->any({0, 2}), none, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(ops::scatter_rows_gradient(this->any({0, 2}), none).shape(), (Shape{0, 2}));
}

TYPED_TEST(GatherTest, rows_are_not_assigned_from_the_table_itself) {
  auto const table = this->put(Floats{0, 1, 2, 3, 4, 5}, {6, 1});
  auto const ids = this->put(Integers{2, 0});
  expect_refused(
      [&] { ops::assign_rows(table, table.rows(1, 3), ids); }, "assign_rows", "[1, 3)", "[0, 6)");
  auto const numbers = this->put(Integers{5, 4, 3, 2}, {4, 1});
  expect_refused(
      [&] {
        ops::assign_rows(
            numbers, this->put(Integers{7, 8}, {2, 1}), numbers.rows(2, 4).reshaped({2}));
      },
      "[2, 4)",
      "[0, 4)");
  ops::assign_rows(table.rows(0, 4), table.rows(4, 6), ids);
  EXPECT_THAT(to_host(table), ::testing::ElementsAre(5, 1, 4, 3, 4, 5));
}

TYPED_TEST(GatherTest, refuses_shapes_that_do_not_fit) {
  auto const ids = this->put(Integers{0, 1});
  auto const deep = this->template any<std::int64_t>({1, 1, 1, 1});
  expect_refused([&] { (void)ops::gather_rows(this->any({3}), ids); }, "gather_rows", "[3]");
  expect_refused([&] { (void)ops::gather_rows(this->any({3, 1}), deep); }, "[1, 1, 1, 1]");
  expect_refused([&] { (void)ops::gather_rows(this->any({3, 1}), ids, ids); }, "[2]");
  expect_refused(
      [&] {
        (void)ops::scatter_rows(this->any({3, 1}), ids, 4);
      },
      "scatter_rows",
      "[3, 1]",
      "[2]");
  expect_refused([&] { (void)ops::scatter_rows(this->any({2, 1}), ids, -4); }, "-4");
  expect_refused(
      [&] {
        ops::assign_rows(this->any({5, 2}), this->any({2, 3}), ids);
      },
      "assign_rows",
      "[5, 2]",
      "[2, 3]");
  expect_refused([&] { (void)ops::scatter_rows_gradient(this->any({5}), ids); },
                 "scatter_rows_gradient",
                 "[5]");
}

}  // namespace
}  // namespace msstream::testing
