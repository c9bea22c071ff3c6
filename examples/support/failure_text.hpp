// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace msstream::support {

/// The text that a user gets for an exception: its message, or more where the standard library's
/// says nothing of what was missing.
[[nodiscard]] std::string failure_text(std::exception_ptr const& failure);

}  // namespace msstream::support
