// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/ops/id_element.hpp>
#include <msstream/ops/kernels/gather.hpp>
#include <msstream/tensor/detail/overlap.hpp>
#include <msstream/tensor/issue.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>

namespace msstream::ops::detail {}  // namespace msstream::ops::detail
