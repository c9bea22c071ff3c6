// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "csv_record.hpp"

#include <msstream/support/readers.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::support {

/// What a column of a text file is to the model.
enum class ColumnRole : std::uint8_t {
  categorical,
  continuous,         ///< as it stands
  continuous_logged,  ///< log(1 + max(x, 0)); 0 when empty
  ignored,
  label_zero_one,      ///< `0` or `1`
  label_income,        ///< `- 50000.` or `50000+.`, the full stop optional
  label_never_married  ///< 1 for `Never married`
};

struct Column {
  std::string name;
  ColumnRole role;
};

/// The columns of a format and how they are told apart.
struct TextFormat {
  std::string_view name;
  char separator;
  bool padded;      ///< values have spaces around them that do not count
  bool has_header;  ///< the first line holds the column names
  std::vector<Column> columns;

  [[nodiscard]] Schema schema() const;
  /// How values may be quoted; nothing where a quote is text, as between tabs.
  [[nodiscard]] std::optional<Quoting> quoting() const {
    return separator == ',' ? std::optional(Quoting{separator, padded}) : std::nullopt;
  }
};

[[nodiscard]] TextFormat text_format(ReaderOptions const& options, DataFormat format);

/// The format whose files begin with such a record; `automatic` when there is none.
[[nodiscard]] DataFormat recognise_format(std::string_view first_record);

}  // namespace msstream::support
