// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::ops {

/// The ids of a lookup, grouped by value: the distinct valid ids in ascending order, and for each
/// one the ascending list of the places where it occurs. Places are numbered by the ids; if the
/// bags have a default id, one more place per bag follows.
template <Runtime R = DefaultRuntime>
struct UniqueRows {
  Tensor<std::int64_t, R> ids;        ///< [places], the first *count are valid; ascending
  Tensor<std::int32_t, R> starts;     ///< [places + 1], per id its first index into positions
  Tensor<std::int32_t, R> positions;  ///< [places], the places of ids[0], then those of ids[1], …
  Tensor<std::int32_t, R> ranks;      ///< [places], positions[k] holds ids[ranks[k]]; -1 if invalid
  Tensor<std::int64_t, R> count;      ///< scalar: the number of distinct ids
};

namespace detail {

// The bodies of the functions below.

[[nodiscard]] UniqueRows<AnyRuntime> deduplicate(Bags<AnyRuntime> const& bags,
                                                 std::int64_t rows,
                                                 Pooling pooling,
                                                 std::source_location issued_at);

}  // namespace detail

/// Groups the equal ids of a lookup in a table of `rows` rows. If `pooling` is not Pooling::none,
/// the ids of a bag whose offsets do not ascend within the ids are left out, because the lookup
/// does not read them. With Pooling::none a lookup gives one row per id whatever its bag, and the
/// ids of every bag are grouped. `pooling` must be that of the lookup. The count stays on the
/// device. Deterministic; capture-safe.
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
};

namespace detail {

/// Returns the arguments of the kernels that compute a lookup's gradient, without the output and
/// the workspace. Adds the tensors that the kernels read to `read`. Throws std::invalid_argument
/// for shapes and options that do not fit.
template <Element T, Runtime R>
[[nodiscard]] kernels::RowGradientArgs row_gradient_args(
    char const* operation,
    Bags<R> const& bags,
    UniqueRows<R> const& unique,
    std::int64_t rows,
    Pooling pooling,
    Tensor<T, R> const& output_gradient,
    std::optional<Tensor<std::int32_t, R>> const& argmax,
    msstream::detail::Uses<R, AccessMode::read>& read) {
  require(output_gradient.shape().rank() == 2,
          operation,
          ": output gradient of shape ",
          output_gradient.shape(),
          "; expected [",
          pooled_shape(bags, pooling, 1)[0],
          ", width]");
  require_weights<T>(operation);
  auto const width = output_gradient.shape()[1];
  auto const pooled = pooled_shape(bags, pooling, width);
  require(output_gradient.shape() == pooled,
          operation,
          ": output gradient of shape ",
          output_gradient.shape(),
          "; expected ",
          pooled);
  require_pooling(operation, bags, pooling, argmax, pooled);
  require(argmax.has_value() == (pooling == Pooling::max),
          operation,
          ": argmax goes with Pooling::max");
  auto const view = bags.view();
  auto const places = kernels::place_capacity(view);
  require(unique.positions.count() == places && unique.starts.count() == places + 1,
          operation,
          ": ids of shape ",
          bags.ids.shape(),
          " with ",
          places,
          " places, grouped ",
          unique.positions.shape());
  read.add(unique.starts);
  read.add(unique.positions);
  read.add(unique.ranks);
  read.add(unique.count);
  read.add(output_gradient);
  if (argmax) {
    read.add(*argmax);
  }
  return {.bags = view,
          .rows = rows,
          .pooling = pooling,
          .starts = unique.starts.data(),
          .positions = unique.positions.data(),
          .ranks = unique.ranks.data(),
          .unique_count = unique.count.data(),
          .output_gradient = output_gradient.data(),
          .gradient_dtype = dtype_of<T>,
          .width = width,
          .row_gradients = nullptr,
          .workspace = nullptr,
          .argmax = argmax ? argmax->data() : nullptr};
}

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
  auto const& device = bags.ids.device();
  auto read = detail::reads_of(bags);
  auto args = detail::row_gradient_args(
      "embedding_gradient", bags, unique, rows, pooling, output_gradient, argmax, read);
  Tensor<float, R> values(device, {unique.positions.count(), args.width});
  auto const workspace_bytes = kernels::row_gradient_workspace_bytes(
      detail::size_query<R>(*device), args.bags, pooling, args.width);
  detail::Workspace<R> const workspace(device, workspace_bytes);
  args.row_gradients = values.data();
  args.workspace = workspace.data();
  issue(
      "embedding_gradient",
      read,
      workspace.with(writes(values)),
      [args](auto stream) { kernels::embedding_row_gradients(stream, args); },
      {},
      issued_at);
  return {unique.ids, unique.count, values};
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
  require(pooling == Pooling::sum || pooling == Pooling::none,
          "embedding_weight_gradient: pooling is not sum or none");
  require(table.shape().rank() == 2,
          "embedding_weight_gradient: table of shape ",
          table.shape(),
          "; expected [rows, width]");
  detail::require_weights<T>("embedding_weight_gradient");
  require(bags.ids.count() <= std::numeric_limits<std::int32_t>::max(),
          "embedding_weight_gradient: ",
          bags.ids.count(),
          " ids are not below 2^31");
  auto const pooled = detail::pooled_shape(bags, pooling, table.shape()[1]);
  require(output_gradient.shape() == pooled,
          "embedding_weight_gradient: output gradient of shape ",
          output_gradient.shape(),
          "; expected ",
          pooled);
  Tensor<float, R> gradient(table.device(), bags.ids.shape());
  kernels::WeightGradientArgs const args{.table = table.data(),
                                         .table_dtype = dtype_of<T>,
                                         .rows = table.shape()[0],
                                         .width = table.shape()[1],
                                         .bags = bags.view(),
                                         .pooling = pooling,
                                         .output_gradient = output_gradient.data(),
                                         .weight_gradient = gradient.data()};
  auto read = detail::reads_of(bags);
  read.add(table);
  read.add(output_gradient);
  issue(
      "embedding_weight_gradient",
      read,
      writes(gradient),
      [args](auto stream) { kernels::embedding_weight_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

namespace detail {

// The bodies of the functions below.

[[nodiscard]] RowGradients<AnyRuntime> merge_row_gradients(
    std::vector<RowGradients<AnyRuntime>> const& parts,
    std::int64_t rows,
    std::vector<std::int64_t> const& first_rows,
    std::source_location issued_at);

}  // namespace detail

/// Merges several gradients of one table of `rows` rows into one. The values of equal rows are
/// added in an order that depends on the ids alone. If `first_rows` is given, the ids of part k
/// refer to a view of the table whose row 0 is row first_rows[k] of the table. A view may begin
/// before the table; rows outside the table are left out. Deterministic; asynchronous;
/// capture-safe.
template <Runtime R>
[[nodiscard]] RowGradients<R> merge_row_gradients(
    std::vector<RowGradients<R>> const& parts,
    std::int64_t rows,
    std::vector<std::int64_t> const& first_rows = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::merge_row_gradients(parts, rows, first_rows, issued_at));
}

}  // namespace msstream::ops
