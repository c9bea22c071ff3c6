// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>

namespace msstream::cli {

/// Makes run_program() call the function when the program's body has ended and its errors are
/// printed, once. The function gets the failure of the program, which may be that of an output;
/// null if there is none. What it throws is ignored. Thread-safe.
void call_at_end(std::function<void(std::exception_ptr const& failure)> function);

/// Calls the functions that were given to call_at_end(), the last one first, and drops them.
void end_with(std::exception_ptr const& failure) noexcept;

}  // namespace msstream::cli
