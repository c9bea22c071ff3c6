// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/id_element.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] TensorOf<std::int64_t> hash_to_bucket(AnyTensor const& keys,
                                                    std::int64_t bucket_count,
                                                    std::uint64_t salt,
                                                    std::source_location issued_at);
[[nodiscard]] TensorOf<std::int64_t> bucketize(Floats const& values,
                                               Floats const& boundaries,
                                               std::source_location issued_at);

}  // namespace detail

/// Maps keys of any shape to [0, bucket_count) with a 64-bit finaliser of MurmurHash3 over key +
/// salt. Keys are int64 or int32; equal keys of either type map to the same bucket. Asynchronous;
/// capture-safe. Throws std::invalid_argument unless bucket_count ≥ 1.
template <IdElement T, Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> hash_to_bucket(
    Tensor<T, R> const& keys,
    std::int64_t bucket_count,
    std::uint64_t salt = 0,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::hash_to_bucket(keys.any(), bucket_count, salt, issued_at));
}

/// Returns the bucket of each value: the number of boundaries ≤ the value, which is in [0,
/// boundaries.count()]. `boundaries` must ascend. NaN goes to bucket 0. Asynchronous; capture-safe.
template <Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> bucketize(
    Tensor<float, R> const& values,
    Tensor<float, R> const& boundaries,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::bucketize(values, boundaries, issued_at));
}

}  // namespace msstream::ops
