// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/id_element.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] TensorOf<std::int64_t> lengths_to_offsets(AnyTensor const& lengths,
                                                        DeviceCount<AnyRuntime> const& count,
                                                        std::source_location issued_at);
[[nodiscard]] TensorOf<std::int64_t> offsets_to_lengths(TensorOf<std::int64_t> const& offsets,
                                                        std::source_location issued_at);

}  // namespace detail

/// Computes the offsets of jagged samples from their lengths: lengths [samples] (int64 or int32) →
/// offsets [samples + 1] int64; offsets[i] is the sum of the lengths before i.
///
/// A length below 0 counts as 0. If `count`, a device scalar, is given, only the first *count
/// samples exist, and the others are empty. Exact; one launch, preceded by a fill if there are more
/// than 8,192 samples; asynchronous; capture-safe. Throws std::invalid_argument unless lengths has
/// one dimension.
template <IdElement T, Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> lengths_to_offsets(
    Tensor<T, R> const& lengths,
    DeviceCount<R> const& count = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::lengths_to_offsets(lengths.any(), count, issued_at));
}

/// Computes the length of each sample, lengths[i] = offsets[i + 1] - offsets[i], from offsets
/// [samples + 1]. A length is 0 where the difference or offsets[i] is below 0. Offsets beyond the
/// number of values are not detected, because that number is not known. One launch; asynchronous;
/// capture-safe. Throws std::invalid_argument unless offsets has one dimension and at least one
/// element.
template <Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> offsets_to_lengths(
    Tensor<std::int64_t, R> const& offsets,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::offsets_to_lengths(offsets, issued_at));
}

}  // namespace msstream::ops
