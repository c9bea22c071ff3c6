// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <source_location>
#include <vector>

namespace msstream::ops {

namespace detail {

// The implementations of cast(), compiled once for all types and runtimes. A tensor that already
// has the type is returned itself.

[[nodiscard]] AnyTensor cast(AnyTensor const& input, DType to, std::source_location issued_at);
/// Casts several tensors of one type in one launch.
[[nodiscard]] std::vector<AnyTensor> cast(std::vector<AnyTensor> const& inputs,
                                          DType to,
                                          std::source_location issued_at);

}  // namespace detail

/// Converts every element to Out, rounded to nearest even; float32, float16 and bfloat16, of any
/// shape. A value beyond the range of float16 becomes infinite, and NaN stays NaN. Returns the
/// tensor itself, not a copy, if it already has the type.
///
/// One launch; deterministic, with equal bits on the host and on CUDA; asynchronous; capture-safe.
template <RealElement Out, RealElement In, Runtime R>
[[nodiscard]] Tensor<Out, R> cast(
    Tensor<In, R> const& input, std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(), detail::cast(input.any(), dtype_of<Out>, issued_at)};
}

}  // namespace msstream::ops
