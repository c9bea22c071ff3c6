// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops {

/// An embedding table that is looked up together with others: its weights [rows, width] and the
/// pooling of its bags.
template <Runtime R = DefaultRuntime>
struct EmbeddingTable {
  /// The rows of the table, [rows, width], of any of the three types.
  std::variant<Tensor<float, R>, Tensor<float16, R>, Tensor<bfloat16, R>> weights;
  Pooling pooling = Pooling::sum;  ///< any pooling except none
  std::int64_t hotness = 1;        ///< ids per bag if the lookup has no offsets
  /// The id that is looked up for a bag without a valid id. Null: the output of such a bag is 0.
  std::optional<std::int64_t> default_id = {};

  /// Converts to a table without a runtime type. For use by the library only.
  template <std::same_as<EmbeddingTable<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    using Weights = decltype(EmbeddingTable<detail::AnyRuntime>::weights);
    return {std::visit([]<Element T>(
                           Tensor<T, R> const& of) -> Weights { return detail::TensorOf<T>(of); },
                       weights),
            pooling,
            hotness,
            default_id};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] EmbeddingTable<R> typed(EmbeddingTable<AnyRuntime> const& table) {
  using Weights = decltype(EmbeddingTable<R>::weights);
  return {std::visit([]<Element T>(TensorOf<T> const& of) -> Weights { return typed<R>(of); },
                     table.weights),
          table.pooling,
          table.hotness,
          table.default_id};
}

/// The tables of an EmbeddingTables, the plan of their lookup, and their descriptors in device
/// memory.
struct TablesInUse;

}  // namespace detail

/// Embedding tables of any sizes, widths, types and poolings that are looked up in one launch.
///
/// Holds the tables, and their descriptors in device memory. The descriptors are uploaded once, so
/// that a lookup costs one launch and a captured lookup can be replayed. Copies share the tables
/// and the descriptors. A lookup reads the contents that the tables have when it runs. Each lookup
/// is ordered after the last writes of the tables, which costs the host least if the tables are
/// frozen, or if they are rows() of a few tensors.
template <Runtime R = DefaultRuntime>
class EmbeddingTables;

/// The implementation of EmbeddingTables, compiled once for all runtimes.
template <>
class EmbeddingTables<detail::AnyRuntime> {
 public:
  EmbeddingTables(std::shared_ptr<detail::DeviceState> const& device,
                  std::vector<EmbeddingTable<detail::AnyRuntime>> tables,
                  std::source_location issued_at);

  [[nodiscard]] std::int64_t tables() const noexcept;  ///< Returns the number of tables.
  /// Returns the table with this number. Throws std::invalid_argument unless the number is in [0,
  /// tables()).
  [[nodiscard]] EmbeddingTable<detail::AnyRuntime> const& table(std::int64_t number) const;
  /// Returns the number of output columns of a lookup: the sum of the widths of all tables.
  [[nodiscard]] std::int64_t width() const noexcept;
  /// Returns the number of ids per sample of a lookup without offsets: the sum of the hotness of
  /// all tables.
  [[nodiscard]] std::int64_t hotness() const noexcept;
  /// Returns the first output column of a table in the result of a lookup. Throws
  /// std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] std::int64_t first_column(std::int64_t number) const;
  /// Returns the index of a table's first row among the rows of all tables, numbered table by
  /// table. Throws std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] std::int64_t first_row(std::int64_t number) const;
  /// Returns the index of a table's first id, for ids of `batch` samples without offsets. Throws
  /// std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] std::int64_t first_place(std::int64_t number, std::int64_t batch) const;
  /// Returns the shape of the argmax of a lookup of `batch` samples: a column for each column of
  /// each table of Pooling::max, in the order of the tables.
  [[nodiscard]] Shape argmax_shape(std::int64_t batch) const;
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept;

  /// Returns the tables with their descriptors. For use by the library only.
  [[nodiscard]] detail::TablesInUse const& in_use() const noexcept { return *in_use_; }

 private:
  std::shared_ptr<detail::TablesInUse const> in_use_;
};

template <Runtime R>
class EmbeddingTables : public EmbeddingTables<detail::AnyRuntime> {
  using Body = EmbeddingTables<detail::AnyRuntime>;

 public:
  /// Uploads the descriptors of the tables, and blocks the host until the upload is complete. Not
  /// allowed within a capture. Throws std::invalid_argument if there are no tables, for shapes
  /// other than [rows, width], for a hotness below 0, for a default id outside its table, and for
  /// Pooling::none.
  EmbeddingTables(Device<R> const& device,
                  std::vector<EmbeddingTable<R>> const& tables,
                  std::source_location issued_at = std::source_location::current())
      : Body(device.state(), {tables.begin(), tables.end()}, issued_at) {}
  /// Makes tables of one pooling and of one id per bag, as the other constructor does.
  template <Element T>
  EmbeddingTables(Device<R> const& device,
                  std::vector<Tensor<T, R>> const& tables,
                  Pooling pooling = Pooling::sum,
                  std::source_location issued_at = std::source_location::current())
      : EmbeddingTables(device, described(tables, pooling), issued_at) {}

  [[nodiscard]] EmbeddingTable<R> table(std::int64_t number) const {
    return detail::typed<R>(Body::table(number));
  }

 private:
  template <Element T>
  static std::vector<EmbeddingTable<R>> described(std::vector<Tensor<T, R>> const& tables,
                                                  Pooling pooling) {
    std::vector<EmbeddingTable<R>> all;
    for (auto const& table : tables) {
      all.push_back({.weights = table, .pooling = pooling});
    }
    return all;
  }
};

/// The ids of many tables, stored table by table, for `batch` bags of each table.
///
/// Without offsets each table has [batch, hotness] ids, which start at first_place() of the table,
/// and `ids` has the ids of all tables.
///
/// With `offsets`, [tables * batch + 1], ascending, of the ids' type, `ids` is [capacity], and bag
/// b of table t has the ids ids[offsets[t * batch + b] : offsets[t * batch + b + 1]]: a keyed
/// jagged array. joined_bags() makes this layout from one tensor of ids per table.
///
/// batch_count: a device scalar, the number of bags of each table that exist. The ids have the
/// layout of the whole batch, and output rows beyond the count are 0.
///
/// weights: of the ids' shape; the row of each id is multiplied by its weight.
template <Runtime R = DefaultRuntime>
struct TableBags {
  IdTensor<R> ids;
  std::int64_t batch;
  std::optional<IdTensor<R>> offsets = {};
  DeviceCount<R> batch_count = {};               ///< bags of each table that exist; null: all
  std::optional<Tensor<float, R>> weights = {};  ///< in the shape of `ids`; null: 1 each

  /// Converts to bags without a runtime type. For use by the library only.
  template <std::same_as<TableBags<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {ids, batch, offsets, batch_count, weights};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] TableBags<R> typed(TableBags<AnyRuntime> bags) {
  TableBags<R> result{typed<R>(std::move(bags.ids)), bags.batch};
  if (bags.offsets) {
    result.offsets = typed<R>(*std::move(bags.offsets));
  }
  result.batch_count = typed<R>(std::move(bags.batch_count));
  result.weights = typed<R>(std::move(bags.weights));
  return result;
}

// The implementation of joined_bags(), compiled once for all runtimes.

[[nodiscard]] TableBags<AnyRuntime> joined_bags(std::vector<AnyBags> const& bags,
                                                OffsetPolicy<AnyRuntime> const& policy,
                                                std::source_location issued_at);

}  // namespace detail

/// Joins the bags of several columns, one for each table, to the bags of a lookup in many tables:
///
///     auto const pooled = ops::embedding_lookup(tape, tables, ops::joined_bags({clicks, views}));
///
/// Columns may have offsets or a fixed hotness, ids of int64 or int32, and weights: a column
/// without them beside one with them has weights of 1. The result has int64 ids and offsets, and
/// copies of the weights, which get no gradient. A bag with invalid offsets has no ids and is
/// reported as `policy` says, bag b of column c as bag c * batch + b. Three launches for up to 48
/// columns, with one copy of the ids; the host reads nothing. Deterministic; asynchronous;
/// capture-safe. Throws std::invalid_argument for an empty list, columns with different numbers of
/// bags, bag counts that are not one tensor, and a default id, which EmbeddingTable has.
template <Runtime R>
[[nodiscard]] TableBags<R> joined_bags(
    std::vector<Bags<R>> const& bags,
    OffsetPolicy<R> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::joined_bags({bags.begin(), bags.end()}, policy, issued_at));
}
template <Runtime R>
[[nodiscard]] TableBags<R> joined_bags(
    std::initializer_list<Bags<R>> bags,
    OffsetPolicy<R> const& policy = {},
    std::source_location issued_at = std::source_location::current()) {
  return joined_bags(std::vector<Bags<R>>(bags), policy, issued_at);
}

template <Runtime R = DefaultRuntime>
struct TablesLookupOptions {
  OutOfRange out_of_range = OutOfRange::drop;  ///< what happens for a bad id or bag
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad ids and bad
  /// bags.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
  /// A tensor of tables.argmax_shape(batch) that receives, for each output element of the tables of
  /// Pooling::max, the index in TableBags::ids of the id whose row supplied the maximum, the first
  /// of equal ones. The index is ids.count() + t * batch + b if that is the default id of bag b of
  /// table t, and -1 if the bag has no row. The lookup's gradient needs it if bags of such a table
  /// may have several ids.
  std::optional<Tensor<std::int32_t, R>> argmax = {};

  /// Converts to options without a runtime type. For use by the library only.
  template <std::same_as<TablesLookupOptions<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {out_of_range, bad_id_count, argmax};
  }
};

namespace detail {

// The implementation of embedding_lookup() in EmbeddingTables, compiled once for all runtimes.

[[nodiscard]] AnyTensor embedding_lookup(DType output,
                                         EmbeddingTables<AnyRuntime> const& tables,
                                         TableBags<AnyRuntime> const& bags,
                                         TablesLookupOptions<AnyRuntime> const& options,
                                         std::source_location issued_at);
/// `dense` has the type of the result.
[[nodiscard]] AnyTensor embedding_lookup_beside(AnyTensor const& dense,
                                                EmbeddingTables<AnyRuntime> const& tables,
                                                TableBags<AnyRuntime> const& bags,
                                                TablesLookupOptions<AnyRuntime> const& options,
                                                std::source_location issued_at);

}  // namespace detail

/// Pools rows of all tables in one launch: [batch, tables.width()] of Out (float32, float16 or
/// bfloat16). The columns of table t start at tables.first_column(t) and have the values that
/// embedding_lookup() of the table alone gives: accumulated in float32 in the order of the ids and
/// rounded to nearest even. A bag without a valid id gives the row of its default id, or 0. NaN and
/// infinity propagate in sums by IEEE 754; a maximum is NaN if any of its elements is NaN.
///
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if ids, offsets, weights
/// or counts do not have the shapes of TableBags, for an argmax of another shape, and for weights
/// of a table with Pooling::max. Bags whose offsets do not ascend within the ids, and OutOfRange,
/// are handled as in a lookup of one table; OutOfRange::trap reports bag b of table t as bag t *
/// batch + b.
template <Element Out = float, Runtime R>
[[nodiscard]] Tensor<Out, R> embedding_lookup(
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    TablesLookupOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<Out, R>(msstream::detail::OfKnownType(),
                        detail::embedding_lookup(dtype_of<Out>, tables, bags, options, issued_at));
}

/// Pools rows of all tables beside other features of the same samples: the result [batch, n +
/// tables.width()] has the columns of `dense` [batch, n] first, and then those of
/// embedding_lookup(). Gives the same bits as ops::concat() of the two, without the pass over the
/// pooled rows that it would take. The lookup does not wait for `dense`, which a second operation
/// copies. Throws std::invalid_argument as embedding_lookup() does, and unless `dense` has two axes
/// and a row for each sample.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> embedding_lookup_beside(
    Tensor<T, R> const& dense,
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    TablesLookupOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(
      msstream::detail::OfKnownType(),
      detail::embedding_lookup_beside(dense.any(), tables, bags, options, issued_at));
}

/// The gradients of many tables, for the rows that a lookup has read. `values[u, : width of its
/// table]` is the gradient of row `rows[u]` among the rows of all tables, for u < *count. The rows
/// of table t have u in [table_starts[t], table_starts[t + 1]).
template <Runtime R = DefaultRuntime>
struct TablesRowGradients {
  Tensor<std::int64_t, R> rows;          ///< [capacity]: tables.first_row(t) + id; ascending
  Tensor<std::int64_t, R> count;         ///< scalar: the number of rows with a gradient
  Tensor<std::int64_t, R> table_starts;  ///< [tables + 1], into rows
  Tensor<float, R> values;               ///< [capacity, width of the widest table]

  /// Converts to gradients without a runtime type. For use by the library only.
  template <std::same_as<TablesRowGradients<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {rows, count, table_starts, values};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] TablesRowGradients<R> typed(TablesRowGradients<AnyRuntime> gradients) {
  return {typed<R>(std::move(gradients.rows)),
          typed<R>(std::move(gradients.count)),
          typed<R>(std::move(gradients.table_starts)),
          typed<R>(std::move(gradients.values))};
}

// The implementations of embedding_tables_gradient() and embedding_tables_weight_gradient(),
// compiled once for all runtimes.

[[nodiscard]] TablesRowGradients<AnyRuntime> embedding_tables_gradient(
    EmbeddingTables<AnyRuntime> const& tables,
    TableBags<AnyRuntime> const& bags,
    AnyTensor const& output_gradient,
    std::optional<TensorOf<std::int32_t>> const& argmax,
    std::source_location issued_at);
[[nodiscard]] Floats embedding_tables_weight_gradient(EmbeddingTables<AnyRuntime> const& tables,
                                                      TableBags<AnyRuntime> const& bags,
                                                      Floats const& output_gradient,
                                                      std::source_location issued_at);

}  // namespace detail

/// Returns the gradient of an embedding_lookup() in many tables with respect to the tables, from
/// the gradient of its output: [batch, tables.width()], float32, float16 or bfloat16, accumulated
/// in float32. The ids of all tables are sorted once, by only as many bits as the number of all
/// rows needs. `argmax` is the tensor that the lookup wrote; tables of Pooling::max need it unless
/// the lookup has no offsets and their hotness is 1.
///
/// A bag whose pooling divisor is 0, and an element that is not the maximum, contribute nothing,
/// even if the output gradient is infinite. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument in the cases in which the lookup does, for an output gradient of another
/// shape, for tables of Pooling::max without the argmax that they need, and for 2^31 bags or ids or
/// more.
template <Element T, Runtime R>
[[nodiscard]] TablesRowGradients<R> embedding_tables_gradient(
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    Tensor<T, R> const& output_gradient,
    std::optional<Tensor<std::int32_t, R>> const& argmax = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::embedding_tables_gradient(tables, bags, output_gradient.any(), argmax, issued_at));
}

/// Returns the gradient of an embedding_lookup() in many tables with respect to the bags' weights,
/// float32, in the shape of the ids. The gradient of a weight is the dot product of its id's row
/// with the gradient of the output row. It is 0 if the id has no row, and in tables of other
/// poolings than Pooling::sum, for whose weights there are no gradients. Deterministic;
/// asynchronous; capture-safe. Throws std::invalid_argument in the cases in which
/// embedding_tables_gradient() does.
template <Runtime R>
[[nodiscard]] Tensor<float, R> embedding_tables_weight_gradient(
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::embedding_tables_weight_gradient(tables, bags, output_gradient, issued_at));
}

}  // namespace msstream::ops
