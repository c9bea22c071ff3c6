// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/fitted_transforms.hpp"

#include <msstream/data/loader.hpp>
#include <msstream/data/reader.hpp>
#include <msstream/data/schema.hpp>

#include <cstddef>
#include <optional>

namespace msstream::data::detail {

/// Returns the options. Throws std::invalid_argument for one outside its range.
[[nodiscard]] LoaderOptions checked_options(LoaderOptions options);

/// Returns the column of LoaderOptions::group in a schema; empty if there is none. Throws
/// std::invalid_argument for a column that cannot keep rows together.
[[nodiscard]] std::optional<std::size_t> group_of(LoaderOptions const& options,
                                                  Schema const& schema);

/// Returns the place to start from, with the settings that determine the batches. Throws
/// std::invalid_argument for a position of other settings.
[[nodiscard]] LoaderPosition settings_of(LoaderOptions const& options,
                                         Reader const& reader,
                                         FittedTransforms const* transforms);

}  // namespace msstream::data::detail
