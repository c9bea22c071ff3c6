// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The sizes of the matrix products leftᵀ · right of a batch: left [length, rows], right [length,
/// columns].
struct TallProduct {
  std::int64_t length;  ///< number of terms of each element's sum
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t batch = 1;
  bool shared_operand = false;  ///< one left or one right matrix for the whole batch
};

/// A sum cut into `count` parts of `length` terms each; the last part may be shorter.
struct SumParts {
  std::int64_t count;
  std::int64_t length;

  friend bool operator==(SumParts const&, SumParts const&) = default;
};

/// Returns the parts in which to compute the sum of a matrix product. There is one part unless the
/// sum is long and the result too small to fill a device. Several parts are computed as products
/// side by side, whose results are added in the order of the parts. The parts depend on the sizes
/// alone, without a query of the device.
///
/// A batch is cut into parts of equal length, or not at all, because only equal parts place the
/// matrices of the batch and their parts at one stride.
///
/// Measured on one H200, tf32, µs in a graph; cuBLASLt does not split any of the sums in the table:
///
///   rows x columns   length 512    a batch of 8 of 512    length 4096    length 6400
///   64 x 64                                                              70
///   256 x 128        8 to 10       7.4                    46
///   429 x 256        8 to 10       19                     100
inline SumParts plan_parts(TallProduct const& product) {
  constexpr std::int64_t kTile = 64;  // side of the tile of a result that a thread block computes
  constexpr std::int64_t kBlocks = 132;  // multiprocessors of the H200, one block each
  constexpr std::int64_t kLongSum = 1024;
  constexpr std::int64_t kLeastOfAPart = 256;
  constexpr std::int64_t kMostParts = 32;  // few, because one thread adds all parts of an element
  constexpr std::int64_t kUnevenMultiple = 32;  // aligns the last part to 16 bytes
  auto const ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };

  SumParts const whole{1, product.length};
  auto const blocks =
      product.batch * ceil_div(product.rows, kTile) * ceil_div(product.columns, kTile);
  if (product.length < kLongSum || blocks == 0 || 2 * blocks > kBlocks ||
      (product.shared_operand && product.batch > 1)) {
    return whole;
  }
  auto const most = std::min({product.length / kLeastOfAPart, kBlocks / blocks, kMostParts});
  for (auto count = most; count > most / 2; --count) {
    if (product.length % count == 0) {
      return {count, product.length / count};
    }
  }
  if (product.batch > 1) {
    return whole;
  }
  auto const length = ceil_div(ceil_div(product.length, most), kUnevenMultiple) * kUnevenMultiple;
  return {ceil_div(product.length, length), length};
}

/// Returns the bytes of workspace for the results of the parts of a product's sum, float32 [batch,
/// parts, rows, columns]. Returns 0 if there is one part.
inline std::size_t workspace_bytes(TallProduct const& product) {
  auto const parts = plan_parts(product).count;
  auto const elements = product.batch * parts * product.rows * product.columns;
  return parts == 1 ? 0 : static_cast<std::size_t>(elements) * sizeof(float);
}

}  // namespace msstream::ops::kernels
