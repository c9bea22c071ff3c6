// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/runtime.hpp>

namespace msstream {

template <Runtime R = DefaultRuntime>
class Device;

}  // namespace msstream
