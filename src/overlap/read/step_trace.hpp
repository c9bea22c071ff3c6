// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <string>
#include <string_view>

namespace msstream::overlap {

/// Makes a recording from the JSON of a StepTrace. Throws std::runtime_error, with `file`, for a
/// broken one or one without operations.
[[nodiscard]] Recording recording_of_step_trace(std::string_view json, std::string const& file);

}  // namespace msstream::overlap
