// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace msstream::cli {

/// Returns the text that a user sees for an exception: its message, or more if the message is one
/// of the standard library that does not say what was missing.
[[nodiscard]] std::string failure_text(std::exception_ptr const& failure);

}  // namespace msstream::cli
