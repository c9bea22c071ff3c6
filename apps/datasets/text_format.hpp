// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/readers.hpp"

#include <msstream/data/text_reader.hpp>

#include <string_view>
#include <vector>

namespace msstream::datasets {

/// A text format: how the library reads its files, as columns of click data (see ClickColumns).
struct TextFormat {
  bool tabs = false;  ///< separates fields by tabs, and not by commas
  data::TextOptions options;
};

[[nodiscard]] TextFormat text_format(ReaderOptions const& options, DataFormat format);

/// Returns the transforms of the 13 numbers of Criteo's data.
[[nodiscard]] std::vector<data::Transform> transforms_of_criteo_numbers();
/// Throws std::invalid_argument unless there are as many lists as Criteo's data has, or none.
void require_lists(std::vector<std::vector<data::Transform>> const& lists);

/// Returns the format of a file whose first record is `first_record`; `automatic` if no format
/// begins so.
[[nodiscard]] DataFormat recognise_format(std::string_view first_record);

}  // namespace msstream::datasets
