// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/offset_policy.hpp>

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

namespace msstream::ops {

namespace detail {

/// Returns the bits of an element, in the lower bytes of the number.
template <Element T>
[[nodiscard]] std::uint64_t bits_of(T const& element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &element, sizeof(T));
  return bits;
}

// The bodies of the functions below.

[[nodiscard]] AnyTensor jagged_to_dense(AnyTensor const& values,
                                        TensorOf<std::int64_t> const& offsets,
                                        std::int64_t max_length,
                                        std::uint64_t padding_bits,
                                        OffsetPolicy<AnyRuntime> const& policy,
                                        std::source_location issued_at);
[[nodiscard]] AnyTensor dense_to_jagged(AnyTensor const& dense,
                                        TensorOf<std::int64_t> const& offsets,
                                        std::int64_t capacity,
                                        OffsetPolicy<AnyRuntime> const& policy,
                                        std::source_location issued_at);

}  // namespace detail

/// Copies jagged samples to dense rows: values [capacity, width] or [capacity], of any element type
/// → [batch, max_length, width] or [batch, max_length]. Sample b has the rows [offsets[b],
/// offsets[b + 1]). A sample whose offsets do not ascend within [0, capacity] has no rows, in the
/// operation and in its gradient, and is reported as `policy` says. Samples never share a row.
///
/// A sample shorter than max_length is followed by `padding`; the rows of a longer one from
/// max_length on are dropped. Deterministic; one launch, whose size depends on the capacities
/// alone; asynchronous; capture-safe. The gradient is dense_to_jagged() of the output's gradient.
/// Throws std::invalid_argument for bad shapes.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> jagged_to_dense(
    Tensor<T, R> const& values,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t max_length,
    T padding = {},
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(
      msstream::detail::OfKnownType(),
      detail::jagged_to_dense(
          values.any(), offsets, max_length, detail::bits_of(padding), policy, issued_at));
}

/// Copies dense rows to jagged samples that are stored one after the other: dense [batch,
/// max_length, width] or [batch, max_length], of any element type → [capacity, width] or
/// [capacity]. Sample b receives the rows [offsets[b], offsets[b + 1]); the last offset is at most
/// the capacity. A sample whose offsets do not ascend within [0, capacity] receives no rows, in the
/// operation and in its gradient, and is reported as `policy` says.
///
/// Rows of `dense` beyond a sample's length are dropped. Output rows of a sample beyond max_length,
/// and output rows of no sample, are 0. Deterministic; one launch; asynchronous; capture-safe. The
/// gradient is jagged_to_dense() of the output's gradient. Throws std::invalid_argument for bad
/// shapes.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> dense_to_jagged(
    Tensor<T, R> const& dense,
    Tensor<std::int64_t, R> const& offsets,
    std::int64_t capacity,
    std::type_identity_t<OffsetPolicy<R>> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(msstream::detail::OfKnownType(),
                      detail::dense_to_jagged(dense.any(), offsets, capacity, policy, issued_at));
}

}  // namespace msstream::ops
