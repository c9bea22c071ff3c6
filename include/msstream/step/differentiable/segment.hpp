// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

/// The operations of ops/segment.hpp with a tape as first argument. The results are the same; the
/// tape records the backward.
namespace msstream::ops {

namespace detail {

// The bodies of the functions below; ids are int32 or int64.

[[nodiscard]] Floats segment_reduce(AnyTape& tape,
                                    Floats const& values,
                                    TensorOf<std::int64_t> const& offsets,
                                    SegmentReduction reduction,
                                    SegmentSemantics semantics,
                                    OffsetPolicy<AnyRuntime> const& policy,
                                    std::source_location issued_at);
[[nodiscard]] Floats sorted_segment_reduce(AnyTape& tape,
                                           Floats const& values,
                                           AnyTensor const& sorted_ids,
                                           std::int64_t segments,
                                           SegmentReduction reduction,
                                           SegmentOptions<AnyRuntime> const& options,
                                           std::source_location issued_at);
[[nodiscard]] Floats unsorted_segment_reduce(AnyTape& tape,
                                             Floats const& values,
                                             AnyTensor const& ids,
                                             std::int64_t segments,
                                             SegmentReduction reduction,
                                             SegmentOptions<AnyRuntime> const& options,
                                             std::source_location issued_at);

}  // namespace detail

template <Runtime R>
[[nodiscard]] Tensor<float, R> segment_reduce(
    GradientTape<R>& tape,
    Tensor<float, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    SegmentReduction reduction,
    SegmentSemantics semantics = SegmentSemantics::tensorflow,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::segment_reduce(tape, values, offsets, reduction, semantics, policy, issued_at));
}

template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> sorted_segment_reduce(
    GradientTape<R>& tape,
    Tensor<float, R> const& values,
    Tensor<Id, R> const& sorted_ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::sorted_segment_reduce(
      tape, values, sorted_ids.any(), segments, reduction, options, issued_at));
}

template <Runtime R, IdElement Id>
[[nodiscard]] Tensor<float, R> unsorted_segment_reduce(
    GradientTape<R>& tape,
    Tensor<float, R> const& values,
    Tensor<Id, R> const& ids,
    std::int64_t segments,
    SegmentReduction reduction,
    std::type_identity_t<SegmentOptions<R>> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::unsorted_segment_reduce(
      tape, values, ids.any(), segments, reduction, options, issued_at));
}

}  // namespace msstream::ops
