// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Rules that derive the launches of plain lookups (plain_lookup.cuh) from shapes.

namespace msstream::ops::kernels {

/// The most threads of a block.
inline constexpr int kPlainThreads = 256;
/// The most ids of a bag whose rows are all requested at once.
inline constexpr int kFewIds = 8;
/// The most rows of a longer bag that are requested at once.
inline constexpr int kRowsOfRound = 16;

/// Returns the length of whole rounds for the ids of a bag.
[[nodiscard]] constexpr std::uint32_t rounds_of(std::uint32_t hotness) {
  return (hotness + kRowsOfRound - 1) / kRowsOfRound * kRowsOfRound;
}
/// Returns how many row numbers of shared memory separate two bags: a multiple of four, because
/// four are read at a time, but not of eight, so that bags of a warp read different banks.
[[nodiscard]] constexpr std::uint32_t staged_rows(std::uint32_t hotness) {
  return rounds_of(hotness) + 4;
}

/// The shape of a plain lookup.
struct PlainShape {
  std::int64_t bags;
  std::int64_t hotness;
  std::int64_t row_bytes;
  int lanes;           ///< loads of a row
  int bytes_of_total;  ///< shared memory per thread for totals of parts
};

/// The block of a plain lookup.
struct PlainBlock {
  int lanes;  ///< threads per bag
  int bags;   ///< bags per block
  int shared_bytes;

  [[nodiscard]] constexpr int threads() const { return lanes * bags; }
};

/// The shared memory of a block that all devices have.
inline constexpr std::int64_t kMostSharedBytes = std::int64_t{48} << 10;

/// Returns whether several bags of one id each should be processed at once, by the kernels of
/// lookup_kernels.cuh, because there is much to read.
[[nodiscard]] constexpr bool has_much_of_one_id(PlainShape const& shape) {
  return shape.hotness == 1 && shape.bags * shape.row_bytes >= std::int64_t{12} << 20;
}

/// Returns whether bags are so few and long that each lane should request 32 rows, as one of the
/// kernels of lookup_kernels.cuh does for rows of at least four loads.
[[nodiscard]] constexpr bool has_few_long_bags(std::int64_t bags,
                                               std::int64_t hotness,
                                               std::int64_t lanes,
                                               int columns) {
  // 132 multiprocessors, of 8 warps each, or 4 if a row takes more instructions.
  std::int64_t const few = (columns <= 4 ? 8 : 4) * 132 * 32;
  return lanes >= 4 && hotness > (columns <= 4 ? 32 : 64) && bags * lanes < few;
}

/// Returns how many rows of a bag of more than kFewIds ids, but one part, are requested at once:
/// kRowsOfRound if so few bags leave the memory idle otherwise.
[[nodiscard]] constexpr int rows_at_once(std::int64_t bags, std::int64_t lanes) {
  return bags * lanes < std::int64_t{8} * 132 * 32 ? kRowsOfRound : kRowsOfRound / 2;
}

/// Returns the number of bags of a block of at least `least` threads and at most kPlainThreads:
/// the smallest one that leaves the fewest lanes of the last warp idle.
[[nodiscard]] constexpr int bags_of_block(int lanes, int least) {
  int best = 1;
  int best_idle = 33;
  for (int bags = 1; bags * lanes <= kPlainThreads; ++bags) {
    int const threads = bags * lanes;
    int const idle = (32 - threads % 32) % 32;
    if (threads < least) {
      best = bags;
      continue;
    }
    // Idle lanes count in relation to the block.
    if (best_idle == 33 || idle * best * lanes < best_idle * threads) {
      best = bags;
      best_idle = idle;
    }
    if (best_idle == 0) {
      break;
    }
  }
  return best;
}

/// Returns the block of a lookup in bags of at most kFewIds ids, or, if `is_staged`, of one whose
/// ids are copied to shared memory. Blocks of few bags are small, so that all multiprocessors have
/// some; the same if the ids of a bag need much shared memory. If a bag has too many ids for
/// shared memory, the block has no bags.
[[nodiscard]] constexpr PlainBlock plain_block(PlainShape const& shape, bool is_staged) {
  constexpr std::int64_t kUsual = std::int64_t{16} << 10;
  constexpr std::int64_t kLanesOfManyBlocks = std::int64_t{2} * 132 * 128;
  bool const is_small = shape.bags * shape.lanes < kLanesOfManyBlocks;
  PlainBlock block{shape.lanes, bags_of_block(shape.lanes, is_small ? 64 : 128), 0};
  if (is_staged) {
    std::int64_t const a_bag =
        std::int64_t{4} * staged_rows(static_cast<std::uint32_t>(shape.hotness)) +
        std::int64_t{shape.bytes_of_total} * shape.lanes;
    while (block.bags > 1 && (a_bag * block.bags > kMostSharedBytes ||
                              (a_bag * block.bags > kUsual && block.threads() > 64))) {
      block.bags = (block.bags + 1) / 2;
    }
    if (a_bag * block.bags > kMostSharedBytes) {
      return {shape.lanes, 0, 0};
    }
    block.shared_bytes = static_cast<int>(a_bag * block.bags);
  }
  return block;
}

}  // namespace msstream::ops::kernels
