// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>

namespace msstream::ops {

/// An optional device scalar with the number of an operation's elements that exist. Null if all
/// elements exist. The alias prevents deduction of R from this parameter, so that a Tensor may be
/// passed.
template <Runtime R = DefaultRuntime>
using DeviceCount = std::type_identity_t<std::optional<Tensor<std::int64_t, R>>>;

}  // namespace msstream::ops
