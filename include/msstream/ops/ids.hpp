// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops {

namespace detail {

// The implementations of hash_to_bucket() and bucketize(), compiled once for all runtimes.

[[nodiscard]] TensorOf<std::int64_t> hash_to_bucket(AnyTensor const& keys,
                                                    std::int64_t bucket_count,
                                                    std::uint64_t salt,
                                                    std::source_location issued_at);
[[nodiscard]] TensorOf<std::int64_t> hash_to_bucket(AnyTensor const& keys,
                                                    std::vector<std::int64_t> const& bucket_counts,
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

/// Maps the keys of several columns, [columns, ...], each column to buckets of its own: column c as
/// hash_to_bucket(column, bucket_counts[c], salt + c). One launch for up to 64 columns.
/// Asynchronous; capture-safe. Throws std::invalid_argument unless there are as many counts as
/// columns, each ≥ 1.
template <IdElement T, Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> hash_to_bucket(
    Tensor<T, R> const& keys,
    std::vector<std::int64_t> const& bucket_counts,
    std::uint64_t salt = 0,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::hash_to_bucket(keys.any(), bucket_counts, salt, issued_at));
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

template <Runtime R = DefaultRuntime>
struct UniqueOptions {
  /// The upper bound of the ids: ids outside [0, below) are left out, and the ids are sorted by
  /// only as many bits as numbers below the bound have. 0: no id is left out, not even a negative
  /// one.
  std::int64_t below = 0;
  UniqueOrder order = UniqueOrder::ascending;  ///< of the distinct ids in the result
  /// A device scalar with the number of ids: only the first *count ids exist. Null: all ids exist.
  DeviceCount<R> count = {};

  /// Converts to options without a runtime type. For use by the library only.
  template <std::same_as<UniqueOptions<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {below, order, count};
  }
};

/// The distinct ids, and for each id its number among them: ids[i] == values[inverse[i]].
template <IdElement T, Runtime R = DefaultRuntime>
struct UniqueIds {
  Tensor<T, R> values;              ///< [capacity]; undefined beyond the count
  Tensor<std::int64_t, R> inverse;  ///< of the ids' shape; -1 for an id that is left out
  Tensor<std::int64_t, R> counts;   ///< [capacity]: the number of occurrences of values[u]
  Tensor<std::int64_t, R> count;    ///< scalar: the number of distinct ids
};

namespace detail {

/// The result of unique() for ids of int64 or int32, on a device of any runtime: see UniqueIds.
struct AnyUniqueIds {
  AnyTensor values;
  TensorOf<std::int64_t> inverse;
  TensorOf<std::int64_t> counts;
  TensorOf<std::int64_t> count;
};
template <IdElement T, Runtime R>
[[nodiscard]] UniqueIds<T, R> typed(AnyUniqueIds found) {
  return {{msstream::detail::OfKnownType(), std::move(found.values)},
          typed<R>(std::move(found.inverse)),
          typed<R>(std::move(found.counts)),
          typed<R>(std::move(found.count))};
}

// The implementation of unique(), compiled once for all runtimes.

[[nodiscard]] AnyUniqueIds unique(AnyTensor const& ids,
                                  UniqueOptions<AnyRuntime> const& options,
                                  std::source_location issued_at);

}  // namespace detail

/// Returns the distinct ids among `ids` of any shape (int64 or int32), in ascending order or in the
/// order of their first occurrence, as torch.unique and tf.unique do.
///
/// The count stays on the device, so that one launch serves every count up to the capacity. Values
/// and counts beyond the count, and the inverse beyond options.count, are undefined. Deterministic;
/// asynchronous; capture-safe. Without ids the count is 0. The ids are radix sorted together with
/// their indices, by no more bytes than they differ in; further launches count and number the
/// groups. Throws std::invalid_argument for a negative `below` and for 2^31 ids or more.
template <IdElement T, Runtime R>
[[nodiscard]] UniqueIds<T, R> unique(
    Tensor<T, R> const& ids,
    UniqueOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<T, R>(detail::unique(ids.any(), options, issued_at));
}

}  // namespace msstream::ops
