// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>

namespace msstream::detail {

/// What a rank sends if all ranks send as many rows: a tensor of a shape with the first rows of
/// `own`, whose rows have as many elements, and after them rows whose bytes are `fill`. Without
/// `own`, all rows are such. If `own` has enough rows, the result is a part of it.
struct PaddedRows {
  std::shared_ptr<DeviceState> const& device;
  DType dtype;
  Shape shape;
  std::uint8_t fill;

  [[nodiscard]] AnyTensor of(std::optional<AnyTensor> const& own,
                             std::source_location issued_at) const;
};

}  // namespace msstream::detail
