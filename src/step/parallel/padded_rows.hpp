// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>

namespace msstream::detail {

/// Makes what a rank sends if all ranks send as many rows: a tensor of a shape with the first rows
/// of `own`, whose rows have as many elements, and after them rows whose bytes are `fill`. Without
/// `own`, all rows are such. If `own` has enough rows, the result is a part of it.
struct PaddedRows {
  std::shared_ptr<DeviceState> const& device;
  DType dtype;
  Shape shape;
  std::uint8_t fill;

  [[nodiscard]] AnyTensor of(std::optional<AnyTensor> const& own,
                             std::source_location issued_at) const;
};

inline AnyTensor PaddedRows::of(std::optional<AnyTensor> const& own,
                                std::source_location issued_at) const {
  auto const rows = shape[0];
  auto const existing = own ? own->shape()[0] : 0;
  if (own && existing >= rows) {
    return own->rows(0, rows);
  }
  AnyTensor padded(device, dtype, shape);
  fill_any(padded.rows(existing, rows), fill, issued_at);
  if (existing > 0) {
    copy_on_device(padded.rows(0, existing), *own, issued_at);
  }
  return padded;
}

}  // namespace msstream::detail
