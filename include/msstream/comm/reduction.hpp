// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>

#include <cstdint>
#include <string_view>

namespace msstream::comm {

/// The way to combine the elements of all ranks. sum and mean of float16 and bfloat16 are computed
/// in float32 and rounded once; sums of integers wrap around; mean is for floats alone; max and min
/// are NaN if an element is NaN.
enum class Reduction : std::uint8_t { sum, mean, max, min };

/// Returns the name of a reduction, such as "sum".
[[nodiscard]] constexpr std::string_view name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::mean:
      return "mean";
    case Reduction::max:
      return "max";
    case Reduction::min:
      return "min";
  }
  return "unknown";
}

}  // namespace msstream::comm
