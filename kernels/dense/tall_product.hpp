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
/// sum is long and the result so small that more blocks of it are computed faster. Several parts
/// are computed as products side by side, whose results are added in the order of the parts. The
/// parts depend on the sizes alone, without a query of the device.
///
/// A batch is cut into parts of equal length, or not at all, because only equal parts place the
/// matrices of the batch and their parts at one stride.
///
/// Measured on one H200, tf32, µs of cuBLASLt's first choice with a workspace of 4 MiB, without the
/// addition of the parts. *bias* is one product whose epilogue sums the columns, which cuBLASLt
/// does not split:
///
///   rows x columns   length   bias   1 part   2      4      8      16
///   512 x 256        8192     92     277      42     23     19     18
///   512 x 512        2048     26     23       14     12     12     13
///   512 x 1024       8192     96     274      62     49     46     55
///   480 x 1024       8192     101    274      62     49     46     56
///   479 x 1024       8192     206    1276     149    101    85     89
///   1024 x 1024      2048     37     33       29     28     34     41
///   1024 x 1024      8192     165    277      98     79     83     89
///   1024 x 2048      4096     101    89       80     84     90     107
///   2048 x 2048      4096     161    146      150    159    174    202
inline SumParts plan_parts(TallProduct const& product) {
  constexpr std::int64_t kTile = 64;  // side of the tile of a result that a thread block computes
  constexpr std::int64_t kMultiprocessors = 132;  // of the H200
  constexpr std::int64_t kMostBlocks = 1024;      // about eight a multiprocessor
  constexpr std::int64_t kLongSum = 1024;
  constexpr std::int64_t kVeryLongSum = 4096;
  constexpr std::int64_t kUnevenMultiple = 32;  // aligns the last part to 16 bytes
  auto const ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };

  SumParts const whole{1, product.length};
  auto const blocks =
      product.batch * ceil_div(product.rows, kTile) * ceil_div(product.columns, kTile);
  if (product.length < kLongSum || blocks == 0 || (product.shared_operand && product.batch > 1)) {
    return whole;
  }
  std::int64_t most = 1;  // few, because one thread adds all parts of an element
  if (2 * blocks <= kMultiprocessors) {
    most = std::min<std::int64_t>(kMultiprocessors / blocks, 32);
    if (product.batch == 1) {
      most = std::max(most, std::min<std::int64_t>(kMostBlocks / blocks, 16));
    }
    most = std::min(most, product.length / 256);
  } else if (product.batch == 1 && product.length >= kVeryLongSum && 4 * blocks <= kMostBlocks) {
    // The addition of the parts, which the table above lacks, moves more bytes here, which only
    // longer parts are taken to be worth.
    most = std::min({kMostBlocks / blocks, std::int64_t{8}, product.length / 1024});
  }
  if (most == 1) {
    return whole;
  }
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
