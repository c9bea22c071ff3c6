// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::ops {

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
      : first_rows_(ascending(rows)),
        weights_(device, {first_rows_.back(), width}),
        first_rows_on_device_(to_device<std::int64_t, R>(
            device, first_rows_, {static_cast<std::int64_t>(first_rows_.size())}, issued_at)) {}

  [[nodiscard]] std::int64_t tables() const noexcept {
    return static_cast<std::int64_t>(first_rows_.size()) - 1;
  }
  /// Returns the weights of all tables, [rows of all tables, width].
  [[nodiscard]] Tensor<T, R> const& weights() const noexcept { return weights_; }
  /// Returns one table, [rows, width], as a view that shares the elements. Throws
  /// std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] Tensor<T, R> table(std::int64_t number) const {
    require(number >= 0 && number < tables(), "table ", number, " of a batch of ", tables());
    auto const i = static_cast<std::size_t>(number);
    return weights_.rows(first_rows_[i], first_rows_[i + 1]);
  }
  /// Returns the first row of each table among the rows of all tables, [tables + 1], on the device.
  [[nodiscard]] Tensor<std::int64_t, R> const& first_rows() const noexcept {
    return first_rows_on_device_;
  }

 private:
  static std::vector<std::int64_t> ascending(std::vector<std::int64_t> const& rows) {
    require(!rows.empty(), "a batch of no tables");
    std::vector<std::int64_t> first{0};
    for (auto const count : rows) {
      require(count >= 1,
              "table ",
              first.size() - 1,
              " of a batch has ",
              count,
              " rows; expected at least 1");
      first.push_back(first.back() + count);
    }
    return first;
  }

  std::vector<std::int64_t> first_rows_;
  Tensor<T, R> weights_;
  Tensor<std::int64_t, R> first_rows_on_device_;
};

namespace detail {

template <Element T, Runtime R>
Bags<R> table_rows(char const* name,
                   TableBatch<T, R> const& tables,
                   Bags<R> const& bags,
                   kernels::TableRowsArgs args,
                   OutOfRange policy,
                   std::optional<Tensor<std::int64_t, R>> const& bad_id_count,
                   std::source_location issued_at) {
  require(bags.bags() % tables.tables() == 0,
          name,
          ": ",
          bags.bags(),
          " bags for ",
          tables.tables(),
          " tables; expected one a table and sample");
  (void)bags.ids.template as<std::int64_t>();
  Tensor<std::int64_t, R> found(bags.ids.device(), bags.ids.shape());
  Bags<R> rows = bags;
  rows.ids = found;
  auto written = writes(found);
  args.bags = bags.view();
  args.tables = tables.tables();
  args.first_rows = tables.first_rows().data();
  args.rows = found.data();
  args.report = id_report(name, *bags.ids.device(), policy, bad_id_count, written);
  auto read = reads_of(bags);
  read.add(tables.first_rows());
  issue(
      name,
      read,
      written,
      [args](auto stream) { kernels::table_rows(stream, args); },
      {},
      issued_at);
  return rows;
}

}  // namespace detail

/// Returns the bags with each key replaced by a row among those of all tables: the first row of the
/// bag's table plus the key's hash_to_bucket() among the table's rows. Asynchronous; capture-safe.
/// Throws std::invalid_argument unless all tables have the same number of bags.
template <Element T, Runtime R>
[[nodiscard]] Bags<R> hash_to_tables(
    TableBatch<T, R> const& tables,
    Bags<R> const& keys,
    std::uint64_t salt = 0,
    std::source_location issued_at = std::source_location::current()) {
  kernels::TableRowsArgs args{};
  args.hashed = true;
  args.salt = salt;
  return detail::table_rows("hash_to_tables", tables, keys, args, OutOfRange::drop, {}, issued_at);
}

/// Like hash_to_tables() of bags, but for keys that are stored table by table, [tables, batch] or
/// [tables, batch, hotness]. Returns batch * tables bags, ordered sample by sample.
template <Element T, Runtime R>
[[nodiscard]] Bags<R> hash_to_tables(
    TableBatch<T, R> const& tables,
    Tensor<std::int64_t, R> const& keys,
    std::uint64_t salt = 0,
    std::source_location issued_at = std::source_location::current()) {
  kernels::TableRowsArgs args{};
  args.hashed = true;
  args.ids_by_table = true;
  args.salt = salt;
  return detail::table_rows("hash_to_tables",
                            tables,
                            detail::sample_major(tables.tables(), keys),
                            args,
                            OutOfRange::drop,
                            {},
                            issued_at);
}

/// Returns the bags with each id within its table replaced by its row among those of all tables. An
/// id outside its table becomes -1, which is invalid in every lookup, and is reported as `policy`
/// says, as are bags whose offsets do not ascend within the ids. Asynchronous; capture-safe. Throws
/// std::invalid_argument unless all tables have the same number of bags.
template <Element T, Runtime R>
[[nodiscard]] Bags<R> rows_of_tables(
    TableBatch<T, R> const& tables,
    Bags<R> const& ids,
    OutOfRange policy = OutOfRange::drop,
    std::type_identity_t<std::optional<Tensor<std::int64_t, R>>> const& bad_id_count = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::table_rows("rows_of_tables", tables, ids, {}, policy, bad_id_count, issued_at);
}

/// Like rows_of_tables() of bags, but for ids that are stored table by table, [tables, batch] or
/// [tables, batch, hotness].
template <Element T, Runtime R>
[[nodiscard]] Bags<R> rows_of_tables(
    TableBatch<T, R> const& tables,
    Tensor<std::int64_t, R> const& ids,
    OutOfRange policy = OutOfRange::drop,
    std::type_identity_t<std::optional<Tensor<std::int64_t, R>>> const& bad_id_count = {},
    std::source_location issued_at = std::source_location::current()) {
  kernels::TableRowsArgs args{};
  args.ids_by_table = true;
  return detail::table_rows("rows_of_tables",
                            tables,
                            detail::sample_major(tables.tables(), ids),
                            args,
                            policy,
                            bad_id_count,
                            issued_at);
}

/// Pools rows of all tables: [batch, tables * width]. `rows` are the bags that hash_to_tables() or
/// rows_of_tables() returns. Like embedding_lookup() in the one tensor of all tables.
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    TableBatch<T, R> const& tables,
    Bags<R> const& rows,
    Pooling pooling = Pooling::sum,
    std::source_location issued_at = std::source_location::current()) {
  return embedding_lookup(tables.weights(), rows, LookupOptions<R>{.pooling = pooling}, issued_at)
      .reshaped({rows.bags() / tables.tables(), tables.tables() * tables.weights().shape()[1]});
}

}  // namespace msstream::ops
