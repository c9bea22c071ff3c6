// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops {

template <Runtime R = DefaultRuntime>
struct LookupOptions {
  Pooling pooling = Pooling::sum;              ///< how the rows of a bag become one
  OutOfRange out_of_range = OutOfRange::drop;  ///< what happens for a bad id or bag
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad ids and bad
  /// bags.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
  /// For Pooling::max: a tensor [bags, width] that receives, for each output element, the index of
  /// the id whose row supplied the maximum. The lookup's gradient needs it.
  std::optional<Tensor<std::int32_t, R>> argmax = {};

  /// Converts to options without a runtime type. For use by the library only.
  template <std::same_as<LookupOptions<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {pooling, out_of_range, bad_id_count, argmax};
  }
};

namespace detail {

// The implementation of embedding_lookup() in one table, compiled once for all runtimes.

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

/// The ids of a lookup, grouped by value: the distinct valid ids in ascending order, and for each
/// one the ascending list of the places where it occurs. A place is the index of an id in the bags'
/// ids; if the bags have a default id, one more place per bag follows.
template <Runtime R = DefaultRuntime>
struct UniqueRows {
  Tensor<std::int64_t, R> ids;        ///< [places], the first *count are valid; ascending
  Tensor<std::int32_t, R> starts;     ///< [places + 1], per id its first index into positions
  Tensor<std::int32_t, R> positions;  ///< [places], the places of ids[0], then those of ids[1], …
  Tensor<std::int32_t, R> ranks;      ///< [places], positions[k] holds ids[ranks[k]]; -1 if invalid
  Tensor<std::int64_t, R> count;      ///< scalar: the number of distinct ids

  /// Converts to unique rows without a runtime type. For use by the library only.
  template <std::same_as<UniqueRows<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {ids, starts, positions, ranks, count};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] UniqueRows<R> typed(UniqueRows<AnyRuntime> rows) {
  return {typed<R>(std::move(rows.ids)),
          typed<R>(std::move(rows.starts)),
          typed<R>(std::move(rows.positions)),
          typed<R>(std::move(rows.ranks)),
          typed<R>(std::move(rows.count))};
}

// The implementation of deduplicate(), compiled once for all runtimes.

[[nodiscard]] UniqueRows<AnyRuntime> deduplicate(Bags<AnyRuntime> const& bags,
                                                 std::int64_t rows,
                                                 Pooling pooling,
                                                 std::source_location issued_at);

}  // namespace detail

/// Groups the equal ids of a lookup in a table of `rows` rows. If `pooling` is not Pooling::none,
/// the ids of a bag whose offsets do not ascend within the ids are left out, because the lookup
/// does not read them. With Pooling::none a lookup gives one row per id whatever its bag, and the
/// ids of every bag are grouped. `pooling` must be that of the lookup. The number of distinct ids
/// stays on the device. Deterministic; capture-safe.
template <Runtime R>
[[nodiscard]] UniqueRows<R> deduplicate(
    Bags<R> const& bags,
    std::int64_t rows,
    Pooling pooling = Pooling::sum,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::deduplicate(bags, rows, pooling, issued_at));
}

/// The row-sparse gradient of a table: `values[u]` is the gradient of row `ids[u]`, for u < *count.
template <Runtime R = DefaultRuntime>
struct RowGradients {
  Tensor<std::int64_t, R> ids;    ///< [capacity], distinct, ascending
  Tensor<std::int64_t, R> count;  ///< scalar: the number of rows with a gradient
  Tensor<float, R> values;        ///< [capacity, width]

  /// Converts to gradients without a runtime type. For use by the library only.
  template <std::same_as<RowGradients<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {ids, count, values};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] RowGradients<R> typed(RowGradients<AnyRuntime> gradients) {
  return {typed<R>(std::move(gradients.ids)),
          typed<R>(std::move(gradients.count)),
          typed<R>(std::move(gradients.values))};
}
template <Runtime R>
[[nodiscard]] std::vector<RowGradients<AnyRuntime>> untyped(
    std::vector<RowGradients<R>> const& gradients) {
  return {gradients.begin(), gradients.end()};
}

// The implementations of embedding_gradient(), embedding_weight_gradient() and
// merge_row_gradients(), compiled once for all runtimes.

[[nodiscard]] RowGradients<AnyRuntime> embedding_gradient(
    AnyBags const& bags,
    UniqueRows<AnyRuntime> const& unique,
    std::int64_t rows,
    Pooling pooling,
    AnyTensor const& output_gradient,
    std::optional<TensorOf<std::int32_t>> const& argmax,
    std::source_location issued_at);
[[nodiscard]] Floats embedding_weight_gradient(AnyTensor const& table,
                                               AnyBags const& bags,
                                               Pooling pooling,
                                               Floats const& output_gradient,
                                               std::source_location issued_at);
[[nodiscard]] RowGradients<AnyRuntime> merge_row_gradients(
    std::vector<RowGradients<AnyRuntime>> const& parts,
    std::int64_t rows,
    std::vector<std::int64_t> const& first_rows,
    std::source_location issued_at);

}  // namespace detail

/// Returns the gradient of embedding_lookup() with respect to its table of `rows` rows, from the
/// gradient of its output: [bags, width], or [ids, width] for Pooling::none, in float32, float16 or
/// bfloat16, accumulated in float32. For Pooling::max `argmax` is the tensor that the lookup wrote.
/// A bag whose pooling divisor is 0 contributes nothing, even if its output gradient is infinite;
/// otherwise NaN and infinity propagate by IEEE 754. Deterministic; asynchronous; capture-safe.
template <Element T, Runtime R>
[[nodiscard]] RowGradients<R> embedding_gradient(
    Bags<R> const& bags,
    UniqueRows<R> const& unique,
    std::int64_t rows,
    Pooling pooling,
    Tensor<T, R> const& output_gradient,
    std::optional<Tensor<std::int32_t, R>> const& argmax = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::embedding_gradient(
      bags, unique, rows, pooling, output_gradient.any(), argmax, issued_at));
}

/// Returns the gradient of a lookup with respect to the bags' weights, float32, in the shape of the
/// ids. Only for Pooling::sum and Pooling::none. The gradient of a weight is the dot product of its
/// id's row with the gradient of the output row, or 0 if the id has no row. Deterministic;
/// asynchronous; capture-safe.
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_weight_gradient(
    Tensor<T, R> const& table,
    Bags<R> const& bags,
    Pooling pooling,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::embedding_weight_gradient(table.any(), bags, pooling, output_gradient, issued_at));
}

/// Merges several gradients of one table of `rows` rows into one. The values of equal rows are
/// added in an order that depends on the ids alone. If `first_rows` is given, the ids of gradient k
/// refer to a view of the table whose row 0 is row first_rows[k] of the table. A view may begin
/// before the table; rows outside the table are left out. Deterministic; asynchronous;
/// capture-safe.
template <Runtime R>
[[nodiscard]] RowGradients<R> merge_row_gradients(
    std::vector<RowGradients<R>> const& parts,
    std::int64_t rows,
    std::vector<std::int64_t> const& first_rows = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::merge_row_gradients(detail::untyped(parts), rows, first_rows, issued_at));
}

}  // namespace msstream::ops
