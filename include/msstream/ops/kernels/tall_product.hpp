// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// leftᵀ · right for each of a batch of left [length, rows] and right [length, columns].
struct TallProduct {
  std::int64_t length;  ///< of the sum behind each element
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t batch = 1;
  bool shared_operand = false;  ///< one left or one right for the whole batch
};

/// A sum cut into `count` parts, each of `length` terms; the last one may be shorter.
struct SumParts {
  std::int64_t count;
  std::int64_t length;

  friend bool operator==(SumParts const&, SumParts const&) = default;
};

/// One part unless the sum is long and the result too small to fill a device. Then the parts are
/// products side by side, whose results are added in the order of the parts. Depends on the sizes
/// alone, and asks no device.
///
/// A batch is cut into parts of one length, or not at all: only then do the matrices of the batch
/// and their parts lie at one stride.
///
/// From one H200, tf32, µs in a graph; cuBLASLt splits none of these sums by itself:
///
///   rows x columns   length 512    a batch of 8 of 512    length 4096    length 6400
///   64 x 64                                                              70
///   256 x 128        8 to 10       7.4                    46
///   429 x 256        8 to 10       19                     100
inline SumParts plan_parts(TallProduct const& product) {
  constexpr std::int64_t kTile = 64;     // a side of what one thread block computes
  constexpr std::int64_t kBlocks = 132;  // of the H200, one a multiprocessor
  constexpr std::int64_t kLongSum = 1024;
  constexpr std::int64_t kLeastOfAPart = 256;
  constexpr std::int64_t kMostParts = 32;       // added by one thread an element
  constexpr std::int64_t kUnevenMultiple = 32;  // keeps the last part aligned to 16 bytes
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

/// Of the workspace for the results of the parts, float32 [batch, parts, rows, columns]; 0 if there
/// is one part.
inline std::size_t workspace_bytes(TallProduct const& product) {
  auto const parts = plan_parts(product).count;
  auto const elements = product.batch * parts * product.rows * product.columns;
  return parts == 1 ? 0 : static_cast<std::size_t>(elements) * sizeof(float);
}

}  // namespace msstream::ops::kernels
