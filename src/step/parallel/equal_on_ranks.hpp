// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace msstream::detail {

/// Throws std::invalid_argument, which begins with the name of the caller and has the first line
/// that differs, unless the texts of all ranks, which `what` calls by a name, are equal.
void require_equal_on_ranks(char const* caller,
                            char const* what,
                            std::vector<std::string> const& texts);

}  // namespace msstream::detail
