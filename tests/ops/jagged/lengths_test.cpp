// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/jagged.hpp>

namespace msstream::testing {
namespace {

template <class R>
class LengthsTest : public OpsTest<R> {};
TYPED_TEST_SUITE(LengthsTest, Runtimes, RuntimeNames);

TYPED_TEST(LengthsTest, go_to_offsets_and_back) {
  for (std::int64_t const samples : {0, 1, 500, 20'000}) {
    auto const lengths = this->random.integers(samples, 0, 9);
    auto const offsets = ops::lengths_to_offsets(this->put(lengths));
    EXPECT_EQ(offsets.shape(), Shape{samples + 1});
    EXPECT_EQ(to_host(ops::offsets_to_lengths(offsets)), lengths);
    std::vector<std::int32_t> const narrow(lengths.begin(), lengths.end());
    EXPECT_EQ(to_host(ops::lengths_to_offsets(this->put(narrow))), to_host(offsets));
  }
}

TYPED_TEST(LengthsTest, count_says_how_many_samples_exist) {
  auto const lengths = this->put(Integers{2, -4, 3, 5});
  EXPECT_EQ(to_host(ops::lengths_to_offsets(lengths, this->scalar(3))), (Integers{0, 2, 2, 5, 5}));
}

TYPED_TEST(LengthsTest, refuses_what_is_no_list) {
  auto const square = this->template any<std::int64_t>({2, 2});
  expect_refused([&] { (void)ops::lengths_to_offsets(square); }, "lengths_to_offsets", "[2, 2]");
  expect_refused(
      [&] { (void)ops::lengths_to_offsets(this->template any<std::int64_t>({2}), square); },
      "lengths_to_offsets",
      "[2, 2]");
  expect_refused([&] { (void)ops::offsets_to_lengths(square); }, "offsets_to_lengths", "[2, 2]");
  expect_refused([&] { (void)ops::offsets_to_lengths(this->template any<std::int64_t>({0})); },
                 "offsets_to_lengths",
                 "[0]");
}

}  // namespace
}  // namespace msstream::testing
