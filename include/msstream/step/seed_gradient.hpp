// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/unary.hpp>
#include <msstream/step/detail/engine_queries.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// The gradient of a loss with respect to itself: a scalar 1 on the device. Not synchronised.
template <Runtime R>
class SeedGradient {
 public:
  /// Returns the scalar, which is uploaded on first use, and again if work on a launch thread has
  /// failed since, because that may have been its upload. If it does not exist yet inside a
  /// capture, it is computed there: a captured upload would not run before a replay, and eager
  /// steps would not wait for it.
  [[nodiscard]] Tensor<float, R> one(Device<R> const& device, std::source_location issued_at) {
    if (!one_ && is_capturing(*device.state())) {
      return ops::exp(zeros<float>(device, Shape{}, issued_at), issued_at);
    }
    auto const failures = launch_failures(*device.state());
    if (!one_ || failures != failures_before_one_) {
      one_.reset();
      one_.emplace(to_device<float, R>(device, std::vector<float>{1.0F}, Shape{}, issued_at));
      failures_before_one_ = failures;
    }
    return *one_;
  }

 private:
  std::optional<Tensor<float, R>> one_;
  std::uint64_t failures_before_one_ = 0;
};

}  // namespace msstream::detail
