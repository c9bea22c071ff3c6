// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cupti.h>)
#define MSSTREAM_HAS_CUPTI 1

#include <cupti.h>

#include <span>
#include <string>

namespace msstream::detail {

/// Has `callback` called on the way into each of these calls of the CUDA runtime, by whomever in
/// the process, until it ends. Loads libcupti. Returns what went wrong; empty: nothing.
[[nodiscard]] std::string subscribe_to_runtime_calls(CUpti_CallbackFunc callback,
                                                     std::span<CUpti_CallbackId const> calls,
                                                     std::span<CUpti_CallbackId const> more_calls);

}  // namespace msstream::detail

#else
#define MSSTREAM_HAS_CUPTI 0
#endif
