// SPDX-License-Identifier: Apache-2.0
#include "ids/joined_bags.hpp"

#include "kernels/kernel_fixture.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class JoinedBagsKernelTest : public KernelTest<Stream> {};
TYPED_TEST_SUITE(JoinedBagsKernelTest, StreamKinds, StreamKindName);

TYPED_TEST(JoinedBagsKernelTest, pieces_are_written_whole_and_nothing_else_is) {
  for (std::int64_t const batch : {1, 31, 33, 257, 2049}) {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> expected_lengths;
    for (std::int64_t bag = 0; bag < batch; ++bag) {
      auto const length = this->random.integers(1, 0, 20)[0];
      expected_lengths.push_back(length);
      auto const list = this->random.integers(length, 0, 1000);
      ids.insert(ids.end(), list.begin(), list.end());
      offsets.push_back(static_cast<std::int64_t>(ids.size()));
    }
    auto const jagged = static_cast<std::int64_t>(ids.size());
    auto const fixed = this->random.integers(3 * batch, 0, 1000);
    expected_lengths.insert(expected_lengths.end(), static_cast<std::size_t>(batch), 3);
    auto const weights = this->random.reals(3 * batch);
    auto const ids_in = this->upload(ids);
    auto const offsets_in = this->upload(offsets);
    auto const fixed_in = this->upload(fixed);
    auto const weights_in = this->upload(weights);
    JoinedBagsArgs args{};
    args.pieces = 2;
    args.at[0] = {ids_in.data(), offsets_in.data(), nullptr, jagged, 1};
    args.at[1] = {fixed_in.data(), IdArray(), weights_in.data(), 3 * batch, 3};
    args.batch = batch;
    auto const lengths = this->template poisoned<std::int64_t>(2 * batch);
    this->replay([&](auto stream) { joined_lengths(stream, args, lengths.data()); });
    EXPECT_EQ(this->read(lengths), expected_lengths);

    std::vector<std::int64_t> sums{0};
    for (auto const length : expected_lengths) {
      sums.push_back(sums.back() + length);
    }
    constexpr std::int64_t kBehind = 5;
    auto const total = sums.back();
    auto const sums_in = this->upload(sums);
    auto const ids_out = this->template poisoned<std::int64_t>(total + kBehind);
    auto const weights_out = this->floats(total + kBehind);
    auto const untouched = this->read(ids_out);
    this->replay([&](auto stream) {
      joined_ids(stream, args, {sums_in.data(), ids_out.data(), weights_out.data()});
    });
    auto expected = ids;
    expected.insert(expected.end(), fixed.begin(), fixed.end());
    expected.insert(expected.end(), untouched.end() - kBehind, untouched.end());
    EXPECT_EQ(this->read(ids_out), expected);
    std::vector<float> expected_weights(ids.size(), 1.0F);
    expected_weights.insert(expected_weights.end(), weights.begin(), weights.end());
    auto found = this->read(weights_out);
    found.resize(expected_weights.size());
    EXPECT_EQ(found, expected_weights);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
