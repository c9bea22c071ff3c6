// SPDX-License-Identifier: Apache-2.0
#include "exchange/push_rows.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace msstream::ops::kernels::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct PushCase {
  int ranks;
  std::int64_t capacity;
  std::int64_t row_bytes;
  std::int64_t shift;  ///< bytes by which all memory begins behind a multiple of 256
};

template <class Stream>
class PushRowsTest : public KernelTest<Stream> {
 protected:
  /// Pushes rows of all ranks, whose memory is on one device, and compares the outputs.
  void expect_pushed(PushCase const& its, int most_blocks) {
    auto const ranks = static_cast<std::size_t>(its.ranks);
    auto const bytes_of_rank = its.capacity * its.row_bytes;
    std::vector<Buffer<std::uint8_t>> outputs;
    std::vector<Bytes> expected;
    for (std::size_t r = 0; r < ranks; ++r) {
      outputs.push_back(
          this->template poisoned<std::uint8_t>(its.shift + its.ranks * bytes_of_rank));
      expected.emplace_back(outputs.back().count(), std::uint8_t{kPoisonByte});
    }
    for (int rank = 0; rank < its.ranks; ++rank) {
      auto const numbers = this->random.integers(its.shift + its.ranks * bytes_of_rank, 0, 255);
      Bytes const own(numbers.begin(), numbers.end());
      // Some counts are outside of the range.
      auto const counts = this->random.integers(its.ranks, -2, its.capacity + 2);
      for (std::size_t to = 0; to < ranks; ++to) {
        auto const rows = std::clamp<std::int64_t>(counts[to], 0, its.capacity);
        auto const from = its.shift + static_cast<std::int64_t>(to) * bytes_of_rank;
        std::copy_n(own.begin() + from,
                    rows * its.row_bytes,
                    expected[to].begin() + its.shift + rank * bytes_of_rank);
      }
      auto const input = this->upload(own);
      auto const count = this->upload(counts);
      PushRowsArgs args{.input = reinterpret_cast<std::byte const*>(input.data() + its.shift),
                        .counts = count.data(),
                        .output = {},
                        .row_bytes = its.row_bytes,
                        .capacity = its.capacity,
                        .rank = rank,
                        .ranks = its.ranks,
                        .most_blocks = most_blocks};
      for (std::size_t to = 0; to < ranks; ++to) {
        args.output[to] = reinterpret_cast<std::byte*>(outputs[to].data() + its.shift);
      }
      this->replay([&](Stream stream) { push_rows(stream, args); });
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      EXPECT_TRUE(this->read(outputs[r]) == expected[r]) << "rank " << r;
    }
  }
};
TYPED_TEST_SUITE(PushRowsTest, StreamKinds, StreamKindName);

TYPED_TEST(PushRowsTest, writes_the_rows_that_counts_say_and_no_others) {
  for (auto const& its : {PushCase{2, 5, 4, 0},
                          PushCase{2, 100, 64, 0},
                          PushCase{3, 33, 12, 0},
                          PushCase{3, 17, 1, 0},
                          PushCase{2, 64, 16, 4},
                          PushCase{2, 64, 16, 1},
                          PushCase{8, 1000, 48, 0},
                          PushCase{16, 7, 6, 0},
                          PushCase{1, 50, 20, 0},
                          PushCase{2, 20'000, 128, 0},
                          PushCase{2, 0, 8, 0},
                          PushCase{2, 8, 0, 0}}) {
    for (int const most_blocks : {1, 5, 64}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} rows of {} bytes, {} bytes later, {} blocks",
                               its.ranks,
                               its.capacity,
                               its.row_bytes,
                               its.shift,
                               most_blocks));
      this->expect_pushed(its, most_blocks);
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
