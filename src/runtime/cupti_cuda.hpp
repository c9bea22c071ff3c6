// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cupti.h>)
#define MSSTREAM_HAS_CUPTI 1

#include <cupti.h>

#include <string>
#include <string_view>

namespace msstream::detail {

/// Has `callback` called on the way into and out of every call of the CUDA runtime and of those
/// calls of the driver that `wants`, by whomever in the process, until it ends. Loads libcupti.
/// Returns what went wrong; empty: nothing.
[[nodiscard]] std::string subscribe_to_calls(CUpti_CallbackFunc callback,
                                             bool (*wants)(CUpti_CallbackId driver_call,
                                                           std::string_view name));

}  // namespace msstream::detail

#else
#define MSSTREAM_HAS_CUPTI 0
#endif
