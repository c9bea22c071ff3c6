// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/schema.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::datasets {

/// The name of the float column that has all continuous values of a row.
inline constexpr std::string_view kContinuous = "continuous";

/// The columns of click data by their roles. A schema has first a column of integers for each
/// categorical field, then `continuous`, then a float column for each label.
struct ClickColumns {
  std::vector<std::string> categorical;
  std::vector<std::string> labels;  ///< one per task; the first is the main one
  std::int64_t hotness = 1;         ///< keys in each categorical field of a row
  std::int64_t continuous = 0;      ///< continuous values in a row

  [[nodiscard]] std::int64_t fields() const noexcept {
    return static_cast<std::int64_t>(categorical.size());
  }
  [[nodiscard]] std::int64_t tasks() const noexcept {
    return static_cast<std::int64_t>(labels.size());
  }
};

/// Returns the columns of a schema of click data by their roles.
[[nodiscard]] inline ClickColumns click_columns(data::Schema const& schema) {
  ClickColumns columns;
  for (auto const& column : schema.columns()) {
    if (!column.is_float()) {
      columns.categorical.push_back(column.name);
      columns.hotness = column.width;
    } else if (column.name == kContinuous) {
      columns.continuous = column.width;
    } else {
      columns.labels.push_back(column.name);
    }
  }
  return columns;
}

}  // namespace msstream::datasets
