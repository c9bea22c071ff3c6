// SPDX-License-Identifier: Apache-2.0
// Tests the tensors that a data parallel step keeps for the rows of large lookups. On the host no
// transport gains by them, so the tests say from how many bytes on they are kept.
#include "comm/mail/row_buffers.hpp"

#include "comm/communicator_state.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using comm::detail::RowBuffers;

constexpr std::int64_t kWidthOfRows = 4;
constexpr std::size_t kLeastKept = 64 * kWidthOfRows * sizeof(float);  ///< of 64 rows

template <class R>
class RowBuffersTest : public ::testing::Test {
 protected:
  /// Calls `body(rank, communicator)` on two ranks that keep tensors of at least kLeastKept bytes.
  template <class Body>
  static void on_keeping_ranks(Body const& body) {
    on_ranks<R>(2, [&](Rank<R> const& rank) {
      auto const& communicator = rank.communicator.any();
      communicator.state().set_least_symmetric_bytes(kLeastKept);
      body(rank, communicator);
    });
  }
};
TYPED_TEST_SUITE(RowBuffersTest, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(RowBuffersTest, keep_the_rows_of_large_lookups_alone) {
  this->on_keeping_ranks([](auto const&, auto const& communicator) {
    RowBuffers buffers;
    EXPECT_FALSE(buffers.rows(0, 63, kWidthOfRows, communicator));
    auto const kept = buffers.rows(0, 64, kWidthOfRows, communicator);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->shape(), (Shape{64, kWidthOfRows}));
    auto const fewer = buffers.rows(0, 5, kWidthOfRows, communicator);
    ASSERT_TRUE(fewer) << "there is memory, if a larger lookup has made it";
    EXPECT_EQ(fewer->shape(), (Shape{5, kWidthOfRows}));
    EXPECT_EQ(fewer->any().data(), kept->any().data());
    auto const of_another_table = buffers.rows(1, 64, kWidthOfRows, communicator);
    ASSERT_TRUE(of_another_table);
    EXPECT_NE(of_another_table->any().data(), kept->any().data());
    EXPECT_FALSE(RowBuffers::of_one_step().rows(0, 64, kWidthOfRows, communicator));
  });
}

TYPED_TEST(RowBuffersTest, grow_and_serve_other_widths) {
  this->on_keeping_ranks([](Rank<TypeParam> const& rank, auto const& communicator) {
    RowBuffers buffers;
    float first = 0;
    for (auto const& [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {64, 4}, {100, 4}, {64, 4}, {64, 8}, {102, 4}, {200, 4}, {2, 4}}) {
      auto const kept = buffers.rows(0, rows, width, communicator);
      ASSERT_TRUE(kept) << rows << " rows of " << width;
      ASSERT_EQ(kept->shape(), (Shape{rows, width}));
      Tensor<float, TypeParam> const of_all(msstream::detail::OfKnownType(), kept->any());
      auto const count = static_cast<std::size_t>(rows * width / 2);
      first += 1;
      comm::all_gather(
          rank.communicator,
          rank.tensor(std::vector<float>(count, first + 100.0F * static_cast<float>(rank.rank()))),
          of_all);
      auto expected = std::vector<float>(count, first);
      expected.resize(2 * count, first + 100);
      ASSERT_EQ(to_host(of_all), expected) << rows << " rows of " << width;
    }
  });
}

TYPED_TEST(RowBuffersTest, call_a_reader_once_before_its_rows_are_overwritten) {
  this->on_keeping_ranks([](auto const&, auto const& communicator) {
    RowBuffers buffers;
    int reads = 0;
    auto const read = [&] { ++reads; };
    buffers.read_before_next(0, read);
    EXPECT_FALSE(buffers.rows(0, 1, kWidthOfRows, communicator));
    EXPECT_EQ(reads, 0) << "of memory that is not kept";
    ASSERT_TRUE(buffers.rows(0, 64, kWidthOfRows, communicator));
    ASSERT_TRUE(buffers.rows(1, 64, kWidthOfRows, communicator));
    buffers.read_before_next(0, read);
    ASSERT_TRUE(buffers.rows(1, 64, kWidthOfRows, communicator));
    EXPECT_EQ(reads, 0) << "of other rows";
    ASSERT_TRUE(buffers.rows(0, 200, kWidthOfRows, communicator));
    EXPECT_EQ(reads, 1);
    ASSERT_TRUE(buffers.rows(0, 200, kWidthOfRows, communicator));
    EXPECT_EQ(reads, 1);
  });
}

TYPED_TEST(RowBuffersTest, a_capture_uses_memory_that_is_kept_and_makes_none) {
  this->on_keeping_ranks([](Rank<TypeParam> const& rank, auto const& communicator) {
    RowBuffers buffers;
    auto const kept = buffers.rows(0, 64, kWidthOfRows, communicator);
    ASSERT_TRUE(kept);
    CapturedStep<TypeParam> const step(rank.device, [&] {
      auto const again = buffers.rows(0, 64, kWidthOfRows, communicator);
      ASSERT_TRUE(again);
      EXPECT_EQ(again->any().data(), kept->any().data());
      EXPECT_FALSE(buffers.rows(1, 64, kWidthOfRows, communicator));
      comm::barrier(rank.communicator);
    });
    EXPECT_TRUE(buffers.rows(1, 64, kWidthOfRows, communicator));
  });
}

}  // namespace
}  // namespace msstream::testing
