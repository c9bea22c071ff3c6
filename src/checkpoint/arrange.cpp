// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/arrange.hpp"

#include <msstream/tensor/detail/any_copy.hpp>

#include <cstring>

namespace msstream::detail {

namespace {

template <Element T>
std::vector<std::byte> rounded(std::span<std::byte const> read) {
  auto const count = read.size() / sizeof(float);
  std::vector<std::byte> out(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0.0F;
    std::memcpy(&value, read.data() + i * sizeof value, sizeof value);
    auto const element = from_float<T>(value);
    std::memcpy(out.data() + i * sizeof element, &element, sizeof element);
  }
  return out;
}

}  // namespace

Arrange round_to(DType dtype) {
  return dtype == DType::float16 ? rounded<float16> : rounded<bfloat16>;
}

Arrange transpose_to(AnyTensor const& matrix) {
  return [rows = static_cast<std::size_t>(matrix.shape()[0]),
          columns = static_cast<std::size_t>(matrix.shape()[1]),
          element = bytes_of(matrix.dtype())](std::span<std::byte const> read) {
    std::vector<std::byte> out(read.size());
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        std::memcpy(out.data() + (row * columns + column) * element,
                    read.data() + (column * rows + row) * element,
                    element);
      }
    }
    return out;
  };
}

Arrange rows_to(AnyTensor const& table,
                std::vector<std::int64_t> const& rows,
                std::source_location issued_at) {
  return [table, &rows, issued_at](std::span<std::byte const> read) {
    std::vector<std::byte> out(table.bytes());
    if (out.empty()) {
      return out;
    }
    std::memcpy(out.data(), download(table, issued_at).data(), out.size());
    auto const row_bytes = out.size() / static_cast<std::size_t>(table.shape()[0]);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] >= 0) {
        std::memcpy(out.data() + i * row_bytes,
                    read.data() + static_cast<std::size_t>(rows[i]) * row_bytes,
                    row_bytes);
      }
    }
    return out;
  };
}

}  // namespace msstream::detail
