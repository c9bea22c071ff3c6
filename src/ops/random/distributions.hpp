// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/philox.hpp"
#include "random/dropout.hpp"
#include "random/fill.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace msstream::ops::detail {

/// Returns the state of a generator, from its tensor.
[[nodiscard]] inline kernels::RandomState* random_state_of(TensorOf<std::int64_t> const& tensor) {
  static_assert(sizeof(kernels::RandomState) == 2 * sizeof(std::int64_t));
  return reinterpret_cast<kernels::RandomState*>(tensor.data());
}

/// Returns the uniform distribution over [low, high]; the rest of the arguments of random_fill() is
/// not set. Throws std::invalid_argument unless the bounds are finite and ascend.
[[nodiscard]] inline kernels::RandomFillArgs uniform_distribution(char const* operation,
                                                                  float low,
                                                                  float high) {
  require(std::isfinite(low) && std::isfinite(high) && low <= high,
          "{}: low {}, high {}; expected finite numbers, low <= high",
          operation,
          low,
          high);
  auto const first = static_cast<double>(low);
  auto const last = static_cast<double>(high);
  return {.data = nullptr,
          .dtype = {},
          .count = 0,
          .key = 0,
          .is_normal = false,
          .base = first,
          .factor = last - first,
          .low = low,
          .high = high};
}

/// Returns a normal distribution, as uniform_distribution() does. Throws std::invalid_argument
/// unless mean and deviation are finite and the deviation is at least 0.
[[nodiscard]] inline kernels::RandomFillArgs normal_distribution(char const* operation,
                                                                 float mean,
                                                                 float deviation) {
  require(std::isfinite(mean) && std::isfinite(deviation) && deviation >= 0.0F,
          "{}: mean {}, deviation {}; expected finite numbers, deviation >= 0",
          operation,
          mean,
          deviation);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {.data = nullptr,
          .dtype = {},
          .count = 0,
          .key = 0,
          .is_normal = true,
          .base = mean,
          .factor = deviation,
          .low = -kInfinity,
          .high = kInfinity};
}

/// The samples of a tensor [samples, …] for which random numbers are drawn.
struct DrawnSamples {
  std::int64_t samples;
  std::int64_t columns;  ///< elements of a sample
};

/// Returns the samples of a tensor of the given shape; a scalar is one sample. Throws
/// std::invalid_argument if the numbers of the samples from `first_sample` on, or those of the
/// Philox blocks of a sample, each for `elements_a_block` elements, are out of range.
[[nodiscard]] inline DrawnSamples drawn_samples(char const* operation,
                                                Shape const& shape,
                                                std::int64_t first_sample,
                                                std::int64_t elements_a_block) {
  auto const samples = shape.rank() > 0 ? shape[0] : 1;
  auto const columns = samples > 0 ? shape.count() / samples : 0;
  require(first_sample >= 0 && first_sample < kernels::kMostSamples - samples,
          "{}: first_sample of {} for {} samples; expected numbers of samples in [0, {})",
          operation,
          first_sample,
          samples,
          kernels::kMostSamples);
  auto const most_columns = elements_a_block << 32U;
  require(columns < most_columns,
          "{}: samples of {} elements; expected fewer than {}",
          operation,
          columns,
          most_columns);
  return {samples, columns};
}

}  // namespace msstream::ops::detail
