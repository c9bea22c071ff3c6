// SPDX-License-Identifier: Apache-2.0
// Tests that, after every other piece of memory under a used-up limit is freed, blocks larger than
// a piece are assembled from the pages of the free pieces.
#include "memory/runtimes.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::int64_t kKiB = 1024;

struct Layout {
  std::int64_t first_bytes;               ///< shifts all pieces relative to the pages; 0: no shift
  std::vector<std::int64_t> piece_bytes;  ///< sizes of the pieces, used in turn
  std::size_t freed;  ///< index of the first freed piece; every other one follows
};

template <class TypeParam>
class Pieces : public RuntimeTest<TypeParam> {
 protected:
  using Bytes = Tensor<std::uint8_t, TypeParam>;

  static constexpr std::int64_t kLimit = 128 * kMiB;
  static constexpr std::int64_t kGapBytes = 2 * kMiB;  ///< room for the alignment to pages
  static constexpr int kGroups = 2;

  /// Returns the fraction of the freed bytes that can be allocated again in blocks that are 1/20
  /// larger than the largest freed piece. Each piece is written on one stream and last read on
  /// another one, and the host waits for neither.
  static double part_had_again(Layout const& layout) {
    DeviceOptions<TypeParam> options;
    options.memory.limit_bytes = std::size_t(kLimit);
    Device<TypeParam> const device(options);
    StreamPool<TypeParam> pool(device, {.groups = kGroups, .launch_threads = LaunchThreads::none});
    std::optional<Bytes> first;
    if (layout.first_bytes != 0) {
      first.emplace(device, Shape{layout.first_bytes});
    }
    std::vector<std::optional<Bytes>> pieces;
    for (std::int64_t room = kLimit - layout.first_bytes;;) {
      StreamScope const scope(pool[static_cast<int>(pieces.size()) % kGroups]);
      auto const bytes = layout.piece_bytes[pieces.size() % layout.piece_bytes.size()];
      if (room < bytes + kGapBytes) {
        break;
      }
      room -= bytes;
      pieces.emplace_back(Bytes(device, {bytes}));
      issue("write", writes(*pieces.back()), [](auto) {});
    }
    std::int64_t largest = 0;
    std::int64_t freed = 0;
    for (auto i = layout.freed; i < pieces.size(); i += 2) {
      StreamScope const scope(pool[static_cast<int>(i + 1) % kGroups]);
      issue("read", reads(*pieces[i]), [](auto) {});
      auto const bytes = layout.piece_bytes[i % layout.piece_bytes.size()];
      largest = std::max(largest, bytes);
      freed += bytes;
      pieces[i].reset();
    }
    auto const wanted = largest / 20 * 21;
    std::vector<Bytes> whole;
    while (can_add_to(whole, device, wanted)) {
    }
    return double(whole.size()) * double(wanted) / double(freed);
  }

 private:
  static bool can_add_to(std::vector<Bytes>& blocks,
                         Device<TypeParam> const& device,
                         std::int64_t bytes) {
    try {
      blocks.emplace_back(device, Shape{bytes});
      return true;
    } catch (OutOfMemory const&) {
      return false;
    }
  }
};
TYPED_TEST_SUITE(Pieces, Runtimes, RuntimeNames);

TYPED_TEST(Pieces, of_more_than_a_page_are_put_together_wherever_they_lie) {
  for (std::int64_t const first : {0 * kKiB, 1088 * kKiB, 1536 * kKiB}) {
    for (auto const& bytes : std::vector<std::vector<std::int64_t>>{
             {3 * kMiB}, {8 * kMiB}, {3 * kMiB, 8 * kMiB}, {8 * kMiB, 3 * kMiB}}) {
      for (std::size_t const freed : {0U, 1U}) {
        EXPECT_GE(this->part_had_again({first, bytes, freed}), 0.4)
            << bytes.size() << " sizes, the first " << bytes.front() / kKiB << " KiB, behind "
            << first / kKiB << " KiB, freed from " << freed << " on";
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
