// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text/text_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msstream::data::detail {

/// Throws DataError with the place of a field that cannot be converted, what its column expects,
/// and the field.
[[noreturn]] void refuse_value(TextPlan const& plan,
                               std::int64_t line,
                               FieldUse const& use,
                               std::string_view value);

/// Throws DataError with the place of a line that has another number of fields than the header.
[[noreturn]] void refuse_count(TextPlan const& plan, std::int64_t line, std::size_t found);

}  // namespace msstream::data::detail
