// SPDX-License-Identifier: Apache-2.0
#include "step/engine_queries.hpp"

#pragma once

#include <msstream/ops/elementwise.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>

namespace msstream::detail {

/// The gradient of a loss with respect to itself: a scalar 1 on the device. Not synchronised.
class SeedGradient {
 public:
  /// Returns the scalar, which is uploaded on first use, and again if work on a launch thread has
  /// failed since, because that may have been its upload. If it does not exist yet inside a
  /// capture, it is computed there: a captured upload would not run before a replay, and eager
  /// steps would not wait for it.
  [[nodiscard]] Floats one(std::shared_ptr<DeviceState> const& device,
                           std::source_location issued_at) {
    if (!one_ && is_capturing(*device)) {
      Floats const zero(device, Shape{});
      fill_any(zero.any(), 0, issued_at);
      return ops::detail::exp(zero, issued_at);
    }
    auto const failures = launch_failures(*device);
    if (!one_ || failures != failures_before_one_) {
      one_.reset();
      float const value = 1.0F;
      one_.emplace(OfKnownType(), upload(device, DType::float32, &value, 1, Shape{}, issued_at));
      failures_before_one_ = failures;
    }
    return *one_;
  }

 private:
  std::optional<Floats> one_;
  std::uint64_t failures_before_one_ = 0;
};

}  // namespace msstream::detail
