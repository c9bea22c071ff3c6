// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace msstream::data::detail {

/// The fields of the lines of a text without quotes, found in one pass over the text. Blank lines
/// are left out.
struct TextIndex {
  /// A line: bounds[first] is the byte before its first field, such as the end of the line before,
  /// and field i has the bytes (bounds[first + i], bounds[first + i + 1]), bounds not included.
  struct Row {
    std::uint32_t first;
    std::uint32_t fields;
  };
  std::vector<std::uint32_t> bounds;  ///< with unused elements at the end
  std::vector<Row> rows;

  /// Returns whether the processor has the instructions of AVX-512 with which fields are found 64
  /// bytes at a time.
  [[nodiscard]] static bool has_wide_blocks() noexcept;
  /// Finds the fields of a text of less than 2^32 bytes, with or without those instructions. Keeps
  /// the memory of earlier texts.
  void find(std::string_view text, char separator, bool wide = has_wide_blocks());

  [[nodiscard]] std::size_t begin_of(Row row, std::size_t field) const noexcept {
    return static_cast<std::uint32_t>(bounds[row.first + field] + 1U);
  }
  [[nodiscard]] std::size_t end_of(Row row, std::size_t field) const noexcept {
    return bounds[row.first + field + 1];
  }
};

}  // namespace msstream::data::detail
