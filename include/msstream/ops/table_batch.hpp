// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <type_traits>
#include <vector>

namespace msstream::ops {

namespace detail {

/// The implementation of TableBatch<T, R>, compiled once for all element types and runtimes.
class AnyTableBatch {
 public:
  AnyTableBatch(std::shared_ptr<DeviceState> const& device,
                DType dtype,
                std::vector<std::int64_t> const& rows,
                std::int64_t width,
                std::source_location issued_at);
  AnyTableBatch(AnyTensor weights,
                std::vector<std::int64_t> const& rows,
                std::source_location issued_at);

  [[nodiscard]] std::int64_t tables() const noexcept {
    return static_cast<std::int64_t>(first_rows_.size()) - 1;
  }
  [[nodiscard]] AnyTensor const& weights() const noexcept { return weights_; }
  [[nodiscard]] AnyTensor table(std::int64_t number) const;
  [[nodiscard]] TensorOf<std::int64_t> const& first_rows() const noexcept {
    return first_rows_on_device_;
  }

 private:
  std::vector<std::int64_t> first_rows_;
  AnyTensor weights_;
  TensorOf<std::int64_t> first_rows_on_device_;
};

}  // namespace detail

/// Embedding tables of one width, stored one after the other in one tensor, so that a lookup, the
/// grouping of ids, the sum of the gradients and the update of the rows each take one launch for
/// all tables.
///
/// Bags are ordered sample by sample: bag b belongs to table b mod tables(). The result of a
/// lookup, [batch * tables, width], is therefore also [batch, tables * width], with the columns of
/// the tables side by side.
template <Element T, Runtime R = DefaultRuntime>
class TableBatch {
 public:
  /// Allocates the tables; the elements are undefined. `rows` has the number of rows of each table.
  /// Throws std::invalid_argument if there is no table, or if a table has no row.
  TableBatch(Device<R> const& device,
             std::vector<std::int64_t> const& rows,
             std::int64_t width,
             std::source_location issued_at = std::source_location::current())
      : any_(device.state(), dtype_of<T>, rows, width, issued_at) {}
  /// Makes a batch of the tables whose rows are those of `weights`, [rows of all tables, width],
  /// one table after the other. It shares the elements: a table of Parameters stays one parameter.
  /// Throws std::invalid_argument if there is no table, if a table has no row, and if the rows of
  /// the tables are not together those of `weights`.
  TableBatch(Tensor<T, R> const& weights,
             std::vector<std::int64_t> const& rows,
             std::source_location issued_at = std::source_location::current())
      : any_(weights.any(), rows, issued_at) {}

  /// Returns the number of tables.
  [[nodiscard]] std::int64_t tables() const noexcept { return any_.tables(); }
  /// Returns the weights of all tables, [rows of all tables, width].
  [[nodiscard]] Tensor<T, R> weights() const { return {Known(), any_.weights()}; }
  /// Returns one table, [rows, width], as a view that shares the elements. Throws
  /// std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] Tensor<T, R> table(std::int64_t number) const {
    return {Known(), any_.table(number)};
  }
  /// Returns the first row of each table among the rows of all tables, [tables + 1], on the device.
  [[nodiscard]] Tensor<std::int64_t, R> first_rows() const {
    return detail::typed<R>(any_.first_rows());
  }
  [[nodiscard]] detail::AnyTableBatch const& any() const noexcept { return any_; }

 private:
  using Known = msstream::detail::OfKnownType;

  detail::AnyTableBatch any_;
};

namespace detail {

// The implementations of hash_to_tables(), rows_of_tables() and embedding_lookup() in a TableBatch,
// compiled once for all runtimes. Ids and keys that are a tensor are stored table by table.

[[nodiscard]] AnyBags hash_to_tables(AnyTableBatch const& tables,
                                     AnyBags const& keys,
                                     std::uint64_t salt,
                                     std::source_location issued_at);
[[nodiscard]] AnyBags hash_to_tables(AnyTableBatch const& tables,
                                     TensorOf<std::int64_t> const& keys,
                                     std::uint64_t salt,
                                     std::source_location issued_at);
[[nodiscard]] AnyBags rows_of_tables(AnyTableBatch const& tables,
                                     AnyBags const& ids,
                                     OutOfRange policy,
                                     std::optional<TensorOf<std::int64_t>> const& bad_id_count,
                                     std::source_location issued_at);
[[nodiscard]] AnyBags rows_of_tables(AnyTableBatch const& tables,
                                     TensorOf<std::int64_t> const& ids,
                                     OutOfRange policy,
                                     std::optional<TensorOf<std::int64_t>> const& bad_id_count,
                                     std::source_location issued_at);
[[nodiscard]] Floats embedding_lookup(AnyTableBatch const& tables,
                                      AnyBags const& rows,
                                      Pooling pooling,
                                      std::source_location issued_at);

}  // namespace detail

/// Returns the bags with each key replaced by a row among those of all tables: the first row of the
/// bag's table plus the key's hash_to_bucket() among the table's rows. Asynchronous; capture-safe.
/// Throws std::invalid_argument unless all tables have the same number of bags, and for 2^31 keys
/// or more in bags of a fixed size.
template <Element T, Runtime R>
[[nodiscard]] Bags<R> hash_to_tables(
    TableBatch<T, R> const& tables,
    Bags<R> const& keys,
    std::uint64_t salt = 0,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::hash_to_tables(tables.any(), keys, salt, issued_at));
}

/// Hashes keys that are stored table by table, [tables, batch] or [tables, batch, hotness], to rows
/// of the tables. Returns batch * tables bags, ordered sample by sample, with the rows that
/// hash_to_tables() gives for bags of keys.
template <Element T, Runtime R>
[[nodiscard]] Bags<R> hash_to_tables(
    TableBatch<T, R> const& tables,
    Tensor<std::int64_t, R> const& keys,
    std::uint64_t salt = 0,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::hash_to_tables(tables.any(), keys, salt, issued_at));
}

/// Returns the bags with each id, which is a row of its table, replaced by that row's number among
/// the rows of all tables. An id outside its table becomes -1, which is invalid in every lookup,
/// and is reported as `policy` says, as are bags whose offsets do not ascend within the ids.
/// Asynchronous; capture-safe. Throws std::invalid_argument unless all tables have the same number
/// of bags, and for 2^31 ids or more in bags of a fixed size.
template <Element T, Runtime R>
[[nodiscard]] Bags<R> rows_of_tables(
    TableBatch<T, R> const& tables,
    Bags<R> const& ids,
    OutOfRange policy = OutOfRange::drop,
    std::type_identity_t<std::optional<Tensor<std::int64_t, R>>> const& bad_id_count = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::rows_of_tables(tables.any(), ids, policy, bad_id_count, issued_at));
}

/// Converts ids that are stored table by table, [tables, batch] or [tables, batch, hotness], to
/// rows of the tables. Returns batch * tables bags, ordered sample by sample, with the rows that
/// rows_of_tables() gives for bags of ids.
template <Element T, Runtime R>
[[nodiscard]] Bags<R> rows_of_tables(
    TableBatch<T, R> const& tables,
    Tensor<std::int64_t, R> const& ids,
    OutOfRange policy = OutOfRange::drop,
    std::type_identity_t<std::optional<Tensor<std::int64_t, R>>> const& bad_id_count = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::rows_of_tables(tables.any(), ids, policy, bad_id_count, issued_at));
}

/// Pools rows of all tables: [batch, tables * width]. `rows` are the bags that hash_to_tables() or
/// rows_of_tables() returns. Gives the values of an embedding_lookup() in tables.weights(), the
/// tensor of all tables.
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    TableBatch<T, R> const& tables,
    Bags<R> const& rows,
    Pooling pooling = Pooling::sum,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::embedding_lookup(tables.any(), rows, pooling, issued_at));
}

}  // namespace msstream::ops
