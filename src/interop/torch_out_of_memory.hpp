// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msstream::detail {

/// Throws PyTorch's out-of-memory error, so that Python raises torch.OutOfMemoryError. If PyTorch
/// is not in the process, or lacks the expected symbols, throws a std::runtime_error.
[[noreturn]] void throw_torch_out_of_memory(std::string const& message);

}  // namespace msstream::detail
