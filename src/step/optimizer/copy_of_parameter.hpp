// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/half_copies.hpp"

#include <msstream/step/optimizer.hpp>

#include <memory>
#include <type_traits>

namespace msstream::detail {

/// Returns the copy of a dense parameter that the options of its optimizer ask for, or null. Null
/// in a capture, too.
[[nodiscard]] inline std::shared_ptr<ops::detail::HalfCopy> copy_of_parameter(
    OptimizerOptions const& options, Floats const& weight) {
  return with_precision(options.copies, [&](auto type) -> std::shared_ptr<ops::detail::HalfCopy> {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, float>) {
      return nullptr;
    } else {
      return ops::detail::HalfCopy::make(weight, dtype_of<T>);
    }
  });
}

}  // namespace msstream::detail
