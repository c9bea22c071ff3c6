// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <source_location>
#include <type_traits>

/// The differentiable form of segment_reduce(), with a GradientTape as first argument. It gives the
/// result of the operation without a tape, and the tape records the backward.
namespace msstream::ops {

namespace detail {

// The implementation of the differentiable segment_reduce(), compiled once for all runtimes.

[[nodiscard]] Floats segment_reduce(AnyTape& tape,
                                    Floats const& values,
                                    AnySegments const& segments,
                                    SegmentReduction reduction,
                                    SegmentOptions const& options,
                                    std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

template <class... Args>
[[nodiscard]] Floats segment_reduce(NoTape, Args const&... args) {
  return segment_reduce(args...);
}

}  // namespace detail

/// Returns ops::segment_reduce(); value rows in no segment get gradients of 0.
template <Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> segment_reduce(
    Tape& tape,
    Tensor<float, R> const& values,
    std::type_identity_t<Segments<R>> const& segments,
    SegmentReduction reduction,
    SegmentOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::segment_reduce(tape, values, segments.any(), reduction, options, issued_at));
}

}  // namespace msstream::ops
