// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/columns.hpp"

#include "elementwise/elementwise.hpp"
#include "mixed/half_columns.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/tensor/issue.hpp>

#include <array>
#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {

namespace {

/// Columns [first, first + width) of the rows of a matrix, as a block beside two that are skipped.
template <class Block>
[[nodiscard]] std::array<Block, 3> as_blocks(void* data,
                                             std::int64_t first,
                                             std::int64_t width,
                                             std::int64_t packed_width) {
  using Data = decltype(Block::data);
  return {Block{nullptr, first},
          Block{static_cast<Data>(data), width},
          Block{nullptr, packed_width - first - width}};
}

}  // namespace

void copy_to_columns(AnyTensor const& from,
                     AnyTensor const& packed,
                     std::int64_t first,
                     std::source_location issued_at) {
  auto const rows = packed.shape()[0];
  auto const width = from.shape()[1];
  auto const packed_width = packed.shape()[1];
  issue(
      "concat",
      reads(from),
      writes(packed),
      [=, floats = from.dtype() == DType::float32, data = from.data(), to = packed.data()](
          auto stream) {
        if (floats) {
          kernels::concat_columns(stream,
                                  as_blocks<kernels::ColumnBlock>(data, first, width, packed_width),
                                  rows,
                                  static_cast<float*>(to));
        } else {
          kernels::concat_half_columns(
              stream, as_blocks<kernels::HalfColumns>(data, first, width, packed_width), rows, to);
        }
      },
      {},
      issued_at);
}

AnyTensor copy_of_columns(AnyTensor const& packed,
                          std::int64_t first,
                          std::int64_t width,
                          std::source_location issued_at) {
  auto const rows = packed.shape()[0];
  auto const packed_width = packed.shape()[1];
  AnyTensor part(packed.device(), packed.dtype(), {rows, width});
  issue(
      "split",
      reads(packed),
      writes(part),
      [=, floats = packed.dtype() == DType::float32, data = part.data(), from = packed.data()](
          auto stream) {
        if (floats) {
          kernels::split_columns(stream,
                                 static_cast<float const*>(from),
                                 as_blocks<kernels::ColumnBlock>(data, first, width, packed_width),
                                 rows);
        } else {
          kernels::split_half_columns(
              stream,
              from,
              as_blocks<kernels::HalfColumns>(data, first, width, packed_width),
              rows);
        }
      },
      {},
      issued_at);
  return part;
}

}  // namespace msstream::ops::detail
