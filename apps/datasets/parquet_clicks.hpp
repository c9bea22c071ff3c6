// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>
#include <msstream/data/transform.hpp>

#include <filesystem>
#include <memory>
#include <vector>

namespace msstream::datasets {

/// Opens Parquet files of Criteo's fields, of which there is at least one, as open_data() describes
/// them: Label, I1..I13 and C1..C26. `lists` are ReaderOptions::lists. Throws DataError also in a
/// build without Arrow, and std::invalid_argument for another number of lists.
[[nodiscard]] std::unique_ptr<data::Reader> open_parquet_clicks(
    std::vector<std::filesystem::path> const& paths,
    std::vector<std::vector<data::Transform>> const& lists);

}  // namespace msstream::datasets
