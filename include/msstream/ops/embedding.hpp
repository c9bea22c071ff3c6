// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops {

namespace detail {

/// Throws std::invalid_argument unless T is float32, float16 or bfloat16. The check is made when
/// the operation is issued, because a throw on a launch thread would come too late.
template <Element T>
void require_weights(char const* operation) {
  constexpr bool is_weight = dtype_of<T> == DType::float32 || dtype_of<T> == DType::float16 ||
                             dtype_of<T> == DType::bfloat16;
  require(is_weight,
          operation,
          ": a table of ",
          name_of(dtype_of<T>),
          "; expected float32, float16 or bfloat16");
}

}  // namespace detail

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
};

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
  require(table.shape().rank() == 2,
          "embedding_lookup: table of shape ",
          table.shape(),
          "; expected [rows, width]");
  detail::require_weights<T>("embedding_lookup");
  detail::require_weights<Out>("embedding_lookup");
  auto const& rows = table.shape()[0];
  require(!bags.default_id || *bags.default_id < rows,
          "embedding_lookup: a default id of ",
          bags.default_id.value_or(0),
          " for a table of ",
          rows,
          " rows");
  auto const shape = detail::pooled_shape(bags, options.pooling, table.shape()[1]);
  detail::require_pooling("embedding_lookup", bags, options.pooling, options.argmax, shape);
  Tensor<Out, R> pooled(table.device(), shape);
  kernels::LookupArgs args{.table = table.data(),
                           .table_dtype = dtype_of<T>,
                           .rows = rows,
                           .width = table.shape()[1],
                           .bags = bags.view(),
                           .pooling = options.pooling,
                           .report = {},
                           .output = pooled.data(),
                           .output_dtype = dtype_of<Out>,
                           .argmax = options.argmax ? options.argmax->data() : nullptr};
  auto written = writes(pooled);
  if (options.argmax) {
    written.add(*options.argmax);
  }
  args.report = detail::id_report(
      "embedding_lookup", *table.device(), options.out_of_range, options.bad_id_count, written);
  auto read = detail::reads_of(bags);
  read.add(table);
  issue(
      "embedding_lookup",
      read,
      written,
      [args](auto stream) { kernels::embedding_lookup(stream, args); },
      {},
      issued_at);
  return pooled;
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
