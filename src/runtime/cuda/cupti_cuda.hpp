// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cupti.h>)
#define MSSTREAM_HAS_CUPTI 1

#include <cupti.h>

#include <string>
#include <string_view>

namespace msstream::detail {

/// Makes CUPTI call `callback` at the beginning and the end of every CUDA runtime call, and of the
/// driver calls that `wants` selects, by any code in the process, until the process ends. Loads
/// libcupti. Returns the reason for a failure; empty on success.
[[nodiscard]] std::string subscribe_to_calls(CUpti_CallbackFunc callback,
                                             bool (*wants)(CUpti_CallbackId driver_call,
                                                           std::string_view name));

}  // namespace msstream::detail

#else
#define MSSTREAM_HAS_CUPTI 0
#endif
