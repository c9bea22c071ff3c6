// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/segment_common.hpp>
#include <msstream/ops/segment_ids.hpp>
#include <msstream/ops/segment_reduction.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>

namespace msstream::ops::detail {}  // namespace msstream::ops::detail
