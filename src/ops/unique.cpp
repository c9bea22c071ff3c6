// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/id_element.hpp>
#include <msstream/ops/kernels/unique.hpp>
#include <msstream/ops/unique.hpp>
#include <msstream/ops/unique_order.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {}  // namespace msstream::ops::detail
