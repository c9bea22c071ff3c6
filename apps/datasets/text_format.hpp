// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/readers.hpp"
#include "datasets/table.hpp"

#include <msstream/data/text_reader.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace msstream::datasets {

/// A text format: its schema, and how the library reads its files. The columns of the library's
/// reader are the keys, the continuous values, and the labels one by one.
struct TextFormat {
  bool tabs = false;  ///< separates fields by tabs, and not by commas
  data::TextOptions options;
  Schema schema;
};

[[nodiscard]] TextFormat text_format(ReaderOptions const& options, DataFormat format);

/// Returns the format of a file whose first record is `first_record`; `automatic` if no format
/// begins so.
[[nodiscard]] DataFormat recognise_format(std::string_view first_record);

}  // namespace msstream::datasets
