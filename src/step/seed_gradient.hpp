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

/// The gradient of a loss with respect to itself, with which a backward pass begins: a scalar 1 on
/// the device. Not synchronised.
class SeedGradient {
 public:
  /// Returns a scalar 1 on the device. It is uploaded at the first call, and again after a failure
  /// on a launch thread, which may have been the failure of its upload. If the first call is inside
  /// a capture, a captured kernel computes the scalar: a captured upload would not run before a
  /// replay, so later steps outside the graph could not use it.
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
