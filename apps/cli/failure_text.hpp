// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace msstream::cli {

/// Returns the text that a program prints for an exception: the exception's message, or a longer
/// text if the message is one of the standard library that does not say what was missing.
[[nodiscard]] std::string failure_text(std::exception_ptr const& failure);

}  // namespace msstream::cli
