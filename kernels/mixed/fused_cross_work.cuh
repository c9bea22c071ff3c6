// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mixed/block_barrier.cuh"
#include "mixed/cross_products.hpp"
#include "mixed/warpgroup_product.cuh"

#include <cstddef>
#include <cstdint>

/// The division of the work of a fused kernel of fused_cross.cuh among clusters of two blocks, and
/// of a block's shared memory among its warps.
namespace msstream::ops::kernels {

inline constexpr int kBlockRows = 128;    ///< of a block of threads: a tile has so many rows,
inline constexpr int kTileColumns = 128;  ///< and so many columns
inline constexpr int kPairRows = 2 * kBlockRows;
inline constexpr std::uint32_t kBoxBytes = kBlockRows * kBoxRowBytes;  ///< of 64 terms of a tile
inline constexpr std::uint32_t kHalfBoxBytes = kBoxBytes / 2;
inline constexpr int kMostBoxes = 8;         ///< of terms: 512 terms
inline constexpr std::uint32_t kStages = 5;  ///< boxes of the weight on their way
inline constexpr std::uint32_t kUnits = 2;   ///< quarters of tiles on their way to the second step
inline constexpr std::uint32_t kUnitRows = 32;
inline constexpr std::uint32_t kUnitRowBytes = 2 * kTileColumns;
inline constexpr std::uint32_t kUnitBytes = kUnitRows * kUnitRowBytes;

/// The arguments of a fused kernel. The elementwise step reads up to 2 * kMostCrossLayers matrices
/// [rows, columns], which are `first` and `input` of the forward, `first` and `added` of a
/// gradient, or the pairs of the last gradient.
struct FusedCross {
  void const* factors[2 * kMostCrossLayers] = {};
  void const* bias = nullptr;
  void* product =
      nullptr;  ///< `projected` of the forward, which may be null, or `sum` of a gradient
  void* output = nullptr;         ///< what the elementwise step computes from the product
  float* partial_sums = nullptr;  ///< [fused_cross_partial_rows(rows), columns]
  int rows = 0;
  int columns = 0;
  int boxes = 0;   ///< of 64 terms
  int tiles = 0;   ///< of the columns
  int pairs = 0;   ///< of blocks of rows
  int ranges = 0;  ///< of tiles, which clusters share
};

/// A range of tiles of a block's rows. Clusters take the work one after the other:
///
///   for (CrossWork work(args); work.exists(); work.next())
///     for (int tile = work.first_tile(); tile < work.end_tile(); ++tile)
class CrossWork {
 public:
  __device__ explicit CrossWork(FusedCross const& args)
      : pairs_(args.pairs),
        tiles_(args.tiles),
        ranges_(args.ranges),
        number_(static_cast<int>(blockIdx.x) / 2) {
    find();
  }

  [[nodiscard]] __device__ bool exists() const { return number_ < pairs_ * ranges_; }
  __device__ void next() {
    number_ += static_cast<int>(gridDim.x) / 2;
    find();
  }

  /// The number of the calling block's 128 rows.
  [[nodiscard]] __device__ int block() const { return block_; }
  [[nodiscard]] __device__ int first_tile() const { return first_tile_; }
  [[nodiscard]] __device__ int end_tile() const { return end_tile_; }

 private:
  __device__ void find() {
    int const range = number_ / pairs_;
    block_ = (number_ - range * pairs_) * 2 + static_cast<int>(block_of_cluster());
    first_tile_ = range * tiles_ / ranges_;
    end_tile_ = (range + 1) * tiles_ / ranges_;
  }

  int pairs_;
  int tiles_;
  int ranges_;
  int number_;
  int block_ = 0;
  int first_tile_ = 0;
  int end_tile_ = 0;
};

/// A block's shared memory: the boxes of its rows, boxes of the weight in a ring, quarters of tiles
/// on their way from the product to the elementwise step, and barriers.
class CrossMemory {
 public:
  static constexpr std::uint32_t kSumBytes = 4 * kTileColumns * sizeof(float);
  static constexpr std::uint32_t kBarriers = 2 * kStages + 2 * kUnits + kMostBoxes + 1;

  [[nodiscard]] static constexpr std::size_t bytes(int boxes) {
    return static_cast<std::size_t>(boxes) * kBoxBytes + kStages * kBoxBytes + kUnits * kUnitBytes +
           kSumBytes + kBarriers * BlockBarrier::kBytes;
  }

  __device__ CrossMemory(std::uint32_t begin, int boxes)
      : begin_(begin), stages_(begin + static_cast<std::uint32_t>(boxes) * kBoxBytes) {}

  [[nodiscard]] __device__ std::uint32_t rows_box(int box) const {
    return begin_ + static_cast<std::uint32_t>(box) * kBoxBytes;
  }
  [[nodiscard]] __device__ std::uint32_t stage(std::uint32_t slot) const {
    return stages_ + slot * kBoxBytes;
  }
  [[nodiscard]] __device__ std::uint32_t unit(std::uint32_t slot) const {
    return stages_ + kStages * kBoxBytes + slot * kUnitBytes;
  }
  /// Sums of columns of four warps, [4, kTileColumns].
  [[nodiscard]] __device__ std::uint32_t sums() const { return unit(kUnits); }

  [[nodiscard]] __device__ BlockBarrier stage_is_full(std::uint32_t slot) const {
    return barrier(slot);
  }
  [[nodiscard]] __device__ BlockBarrier stage_is_free(std::uint32_t slot) const {
    return barrier(kStages + slot);
  }
  [[nodiscard]] __device__ BlockBarrier unit_is_full(std::uint32_t slot) const {
    return barrier(2 * kStages + slot);
  }
  [[nodiscard]] __device__ BlockBarrier unit_is_free(std::uint32_t slot) const {
    return barrier(2 * kStages + kUnits + slot);
  }
  [[nodiscard]] __device__ BlockBarrier rows_are_full(int box) const {
    return barrier(2 * kStages + 2 * kUnits + static_cast<std::uint32_t>(box));
  }
  [[nodiscard]] __device__ BlockBarrier rows_are_free() const { return barrier(kBarriers - 1); }

 private:
  [[nodiscard]] __device__ BlockBarrier barrier(std::uint32_t number) const {
    return BlockBarrier(sums() + kSumBytes + number * BlockBarrier::kBytes);
  }

  std::uint32_t begin_;
  std::uint32_t stages_;
};

}  // namespace msstream::ops::kernels
