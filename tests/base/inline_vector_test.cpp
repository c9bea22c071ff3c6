// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/inline_vector.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace msstream {
namespace {

using Numbers = detail::InlineVector<int, 4>;

std::vector<int> contents(Numbers const& numbers) {
  return {numbers.begin(), numbers.end()};
}

Numbers first_numbers(int count) {
  Numbers numbers;
  for (int i = 0; i < count; ++i) {
    numbers.push_back(i);
  }
  return numbers;
}

TEST(InlineVector, stays_in_its_owner_until_it_is_full) {
  Numbers numbers = first_numbers(4);
  auto const* const own = reinterpret_cast<std::byte const*>(&numbers);
  auto const lies_inside = [&] {
    auto const* const data = reinterpret_cast<std::byte const*>(numbers.begin());
    return data >= own && data < own + sizeof numbers;
  };
  EXPECT_TRUE(lies_inside());
  numbers.push_back(4);
  EXPECT_FALSE(lies_inside());
  EXPECT_EQ(contents(numbers), (std::vector<int>{0, 1, 2, 3, 4}));
  numbers.resize_down(4);
  EXPECT_TRUE(lies_inside());
  EXPECT_EQ(contents(numbers), (std::vector<int>{0, 1, 2, 3}));
}

TEST(InlineVector, behaves_like_a_vector_through_random_growth_and_shrinkage) {
  std::mt19937 random(3);
  Numbers numbers;
  std::vector<int> expected;
  for (int step = 0; step < 20'000; ++step) {
    switch (random() % 8) {
      case 0: {
        std::size_t const kept = random() % (expected.size() + 1);
        numbers.resize_down(kept);
        expected.resize(kept);
        break;
      }
      case 1:
        if (!expected.empty()) {
          std::size_t const place = random() % expected.size();
          numbers[place] = expected[place] = step;
        }
        break;
      case 2:
        numbers.emplace_back(step);
        expected.push_back(step);
        break;
      default:
        numbers.push_back(step);
        expected.push_back(step);
    }
    ASSERT_EQ(numbers.size(), expected.size());
    ASSERT_EQ(numbers.empty(), expected.empty());
    ASSERT_EQ(contents(numbers), expected);
  }
}

TEST(InlineVector, copies_are_independent_inline_and_spilled) {
  for (int const count : {3, 9}) {
    Numbers const original = first_numbers(count);
    Numbers copy = original;
    copy[0] = 77;
    EXPECT_EQ(original[0], 0);
    Numbers const moved = std::move(copy);
    EXPECT_EQ(moved.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(moved[0], 77);
    EXPECT_EQ(moved.view().back(), count - 1);
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): a moved-from list is empty
    copy.push_back(5);
    EXPECT_EQ(contents(copy), std::vector<int>{5});
  }
}

TEST(InlineVector, takes_its_own_element_while_it_spills) {
  Numbers numbers = first_numbers(4);
  numbers.push_back(numbers[3]);
  for (int i = 0; i < 20; ++i) {
    numbers.push_back(numbers[4]);
  }
  EXPECT_EQ(numbers.view().back(), 3);
}

TEST(InlineVector, can_be_cleared_and_used_again) {
  Numbers numbers = first_numbers(9);
  numbers.clear();
  EXPECT_TRUE(numbers.empty());
  numbers.push_back(5);
  EXPECT_EQ(contents(numbers), std::vector<int>{5});
}

TEST(InlineVector, takes_the_contents_of_another_whatever_either_had) {
  for (int const before : {0, 3, 9, 20}) {
    for (int const count : {0, 3, 9, 20}) {
      Numbers original = first_numbers(count);
      auto const expected = contents(original);
      Numbers copied = first_numbers(before);
      copied = original;
      EXPECT_EQ(contents(copied), expected) << before;
      EXPECT_EQ(contents(original), expected) << before;
      Numbers moved = first_numbers(before);
      moved = std::move(original);
      EXPECT_EQ(contents(moved), expected) << before;
      for (int i = 0; i < 9; ++i) {
        copied.push_back(i);
        moved.push_back(i);
      }
      EXPECT_EQ(contents(moved), contents(copied)) << before;
    }
  }
}

}  // namespace
}  // namespace msstream
