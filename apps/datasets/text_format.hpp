// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/csv_record.hpp"
#include "datasets/readers.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::datasets {

/// The role of a column of a text file in a model.
enum class ColumnRole : std::uint8_t {
  categorical,
  continuous,         ///< a number, used as it is
  continuous_logged,  ///< a number x, used as log(1 + max(x, 0)); 0 if empty
  ignored,
  label_zero_one,      ///< a label, `0` or `1`
  label_income,        ///< a label, `- 50000.` or `50000+.`, the full stop optional
  label_never_married  ///< a label, 1 for `Never married`
};

struct Column {
  std::string name;
  ColumnRole role;
};

/// The columns of a text format, and how they are separated.
struct TextFormat {
  std::string_view name;
  char separator;
  bool padded;      ///< ignores spaces around values
  bool has_header;  ///< the first line holds the column names
  std::vector<Column> columns;

  [[nodiscard]] Schema schema() const;
  /// Returns the quoting rules of the format; empty if a quote is text, as in columns separated by
  /// tabs.
  [[nodiscard]] std::optional<Quoting> quoting() const {
    return separator == ',' ? std::optional(Quoting{separator, padded}) : std::nullopt;
  }
};

[[nodiscard]] TextFormat text_format(ReaderOptions const& options, DataFormat format);

/// Returns the format of a file whose first record is `first_record`; `automatic` if no format
/// begins so.
[[nodiscard]] DataFormat recognise_format(std::string_view first_record);

}  // namespace msstream::datasets
