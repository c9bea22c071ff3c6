// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops {

template <Runtime R = DefaultRuntime>
struct LookupOptions {
  Pooling pooling = Pooling::sum;
  OutOfRange out_of_range = OutOfRange::drop;
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad ids and bad
  /// bags.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
  /// For Pooling::max: [bags, width]. Receives, for each output element, the index of the id whose
  /// row supplied the maximum. The gradient needs it.
  std::optional<Tensor<std::int32_t, R>> argmax = {};

  /// For the library itself: the same options, on a device of whichever runtime.
  operator LookupOptions<detail::AnyRuntime>() const  // NOLINT(google-explicit-constructor)
      requires(!std::same_as<R, detail::AnyRuntime>) {
    return {pooling, out_of_range, bad_id_count, argmax};
  }
};

namespace detail {

// The body of the functions below.

[[nodiscard]] AnyTensor embedding_lookup(DType output,
                                         AnyTensor const& table,
                                         AnyBags const& bags,
                                         LookupOptions<AnyRuntime> const& options,
                                         std::source_location issued_at);

}  // namespace detail

/// Pools rows of `table` [rows, width] into [bags, width], or into [ids, width] for Pooling::none.
/// Table and output (Out) are float32, float16 or bfloat16. Rows are accumulated in float32 in the
/// order of the ids; runs of 32 ids are summed in float32, and the sums of the runs are added in
/// float64. The result is rounded to nearest even. A bag without a valid id gives the row of its
/// default id, or 0 if there is none. NaN and infinity propagate in sums by IEEE 754; a maximum is
/// NaN if any of its elements is NaN.
///
/// A bag whose offsets do not ascend within the ids has no ids, in the lookup and in its gradient,
/// and is reported like a bad id. Bags never share an id. Deterministic; asynchronous;
/// capture-safe. Throws std::invalid_argument for bad shapes, for a default id outside the table,
/// and for Pooling::max with weights. With OutOfRange::trap a bad id or bag makes the next
/// to_host() or PinnedArray::wait() throw std::out_of_range, also if the lookup was replayed from a
/// graph.
template <Element Out = float, Element T, Runtime R>
[[nodiscard]] Tensor<Out, R> embedding_lookup(
    Tensor<T, R> const& table,
    Bags<R> const& bags,
    LookupOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<Out, R>(
      msstream::detail::OfKnownType(),
      detail::embedding_lookup(dtype_of<Out>, table.any(), bags, options, issued_at));
}

/// Pools rows of `table` into one row per jagged bag: `ids` [capacity], `offsets` [bags + 1].
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    Tensor<T, R> const& table,
    Tensor<std::int64_t, R> const& ids,
    Tensor<std::int64_t, R> const& offsets,
    Pooling pooling,
    std::source_location issued_at = std::source_location::current()) {
  return embedding_lookup(
      table, Bags<R>(ids, offsets), LookupOptions<R>{.pooling = pooling}, issued_at);
}

}  // namespace msstream::ops
