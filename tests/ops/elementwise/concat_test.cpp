// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/matrix.hpp>

#include <fmt/core.h>

namespace msstream::testing {
namespace {

template <class R>
class ConcatTest : public OpsTest<R> {};
TYPED_TEST_SUITE(ConcatTest, Runtimes, RuntimeNames);

TYPED_TEST(ConcatTest, lays_blocks_side_by_side_and_split_takes_them_apart) {
  for (std::size_t const count : {1U, 3U, 64U, 65U, 130U}) {
    SCOPED_TRACE(fmt::format("{} blocks", count));
    constexpr std::int64_t kRows = 5;
    std::vector<Floats> values;
    std::vector<Tensor<float, TypeParam>> blocks;
    Integers widths;
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < count; ++i) {
      widths.push_back(this->random.integer(0, 7));
      wanted.push_back(this->random.integer(0, 3) != 0);
      values.push_back(this->random.reals(kRows * widths.back()));
      blocks.push_back(this->put(values.back(), {kRows, widths.back()}));
    }
    Floats expected;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < count; ++i) {
        auto const width = static_cast<std::size_t>(widths[i]);
        for (std::size_t column = 0; column < width; ++column) {
          expected.push_back(values[i][row * width + column]);
        }
      }
    }
    auto const packed = ops::concat(blocks);
    EXPECT_EQ(to_host(packed), expected);
    auto const apart = ops::split(packed, std::span<std::int64_t const>(widths), wanted);
    ASSERT_EQ(apart.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(apart[i].has_value(), wanted[i]);
      if (wanted[i]) {
        EXPECT_EQ(apart[i]->shape(), (Shape{kRows, widths[i]}));
        EXPECT_EQ(to_host(*apart[i]), values[i]) << "block " << i;
      }
    }
  }
}

TYPED_TEST(ConcatTest, takes_no_rows_and_issues_nothing_for_a_split_that_nobody_wants) {
  auto const empty = this->any({0, 3});
  EXPECT_EQ(ops::concat(std::vector{empty, empty}).shape(), (Shape{0, 6}));
  auto const packed = this->any({2, 3});
  auto const before = this->device().operation_count();
  Integers const widths = {1, 2};
  EXPECT_FALSE(ops::split(packed, std::span<std::int64_t const>(widths), {false, false})[0]);
  EXPECT_EQ(this->device().operation_count(), before);
}

TYPED_TEST(ConcatTest, refuses_shapes_that_do_not_fit) {
  auto const x = this->any({2, 3});
  expect_refused([&] { (void)ops::concat(std::vector<Tensor<float, TypeParam>>{}); }, "concat");
  expect_refused(
      [&] {
        (void)ops::concat(std::vector{x, this->any({3, 3})});
      },
      "concat",
      "[2, 3]",
      "[3, 3]");
  for (auto const& shape : {Shape{}, Shape{2}, Shape{2, 1, 1}}) {
    expect_refused([&] { (void)ops::concat(std::vector{this->any(shape)}); }, "concat", shape);
    expect_refused([&] { (void)ops::concat(std::vector{x, this->any(shape)}); }, "concat", shape);
  }
  auto const split = [](auto const& packed, Integers const& widths, std::vector<bool> wanted) {
    return [=] { (void)ops::split(packed, std::span<std::int64_t const>(widths), wanted); };
  };
  expect_refused(split(this->any({6}), {6}, {true}), "split", "[6]");
  expect_refused(split(x, {1, 1}, {true, true}), "split", "[2, 3]", "2");
  expect_refused(split(x, {1, 2}, {true}), "split", "[2, 3]");
  expect_refused(split(x, {4, -1}, {true, true}), "split", "-1");
  expect_refused(split(x, {4, -1}, {true, false}), "split", "-1");
}

}  // namespace
}  // namespace msstream::testing
