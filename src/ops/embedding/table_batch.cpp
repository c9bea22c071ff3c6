// SPDX-License-Identifier: Apache-2.0
#include "embedding/table_rows.hpp"
#include "ops/common/bag_view.hpp"
#include "ops/common/id_trap.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/table_batch.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

std::vector<std::int64_t> ascending(std::vector<std::int64_t> const& rows) {
  require(!rows.empty(), "a batch of no tables");
  std::vector<std::int64_t> first{0};
  for (auto const count : rows) {
    require(count >= 1,
            "table {} of a batch has {} rows; expected at least 1",
            first.size() - 1,
            count);
    first.push_back(first.back() + count);
  }
  return first;
}

AnyBags table_rows(char const* name,
                   AnyTableBatch const& tables,
                   AnyBags const& bags,
                   kernels::TableRowsArgs args,
                   OutOfRange policy,
                   std::optional<TensorOf<std::int64_t>> const& bad_id_count,
                   std::source_location issued_at) {
  require(bags.bags() % tables.tables() == 0,
          "{}: {} bags for {} tables; expected one a table and sample",
          name,
          bags.bags(),
          tables.tables());
  static_cast<void>(TensorOf<std::int64_t>(bags.ids.any()));  // throws for int32
  TensorOf<std::int64_t> found(bags.ids.device(), bags.ids.shape());
  AnyBags rows = bags;
  rows.ids = found;
  auto written = writes(found);
  args.bags = view_of(bags);
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

/// Returns bags in sample-major order for ids [tables, batch] or [tables, batch, hotness], which
/// are stored table by table. Does not copy the ids. Throws std::invalid_argument for other shapes.
AnyBags sample_major(std::int64_t tables, TensorOf<std::int64_t> const& ids) {
  auto const& shape = ids.shape();
  require((shape.rank() == 2 || shape.rank() == 3) && shape[0] == tables,
          "ids of {} tables, of shape {}; expected [tables, batch] or [tables, batch, hotness]",
          tables,
          shape);
  return AnyBags(ids.reshaped({shape[0] * shape[1], shape.rank() == 3 ? shape[2] : 1}));
}

}  // namespace

AnyTableBatch::AnyTableBatch(std::shared_ptr<DeviceState> const& device,
                             DType dtype,
                             std::vector<std::int64_t> const& rows,
                             std::int64_t width,
                             std::source_location issued_at)
    : AnyTableBatch(AnyTensor(device, dtype, {ascending(rows).back(), width}), rows, issued_at) {}

AnyTableBatch::AnyTableBatch(AnyTensor weights,
                             std::vector<std::int64_t> const& rows,
                             std::source_location issued_at)
    : first_rows_(ascending(rows)),
      weights_(std::move(weights)),
      first_rows_on_device_(
          msstream::detail::upload(weights_.device(),
                                   DType::int64,
                                   first_rows_.data(),
                                   first_rows_.size(),
                                   {static_cast<std::int64_t>(first_rows_.size())},
                                   issued_at)) {
  require(weights_.shape().rank() == 2 && weights_.shape()[0] == first_rows_.back(),
          "a batch of tables of {} rows together, in a tensor of shape {}; expected [rows, width]",
          first_rows_.back(),
          weights_.shape());
}

AnyTensor AnyTableBatch::table(std::int64_t number) const {
  require(number >= 0 && number < tables(), "table {} of a batch of {}", number, tables());
  auto const i = static_cast<std::size_t>(number);
  return weights_.rows(first_rows_[i], first_rows_[i + 1]);
}

AnyBags hash_to_tables(AnyTableBatch const& tables,
                       AnyBags const& keys,
                       std::uint64_t salt,
                       std::source_location issued_at) {
  kernels::TableRowsArgs args{};
  args.hashed = true;
  args.salt = salt;
  return table_rows("hash_to_tables", tables, keys, args, OutOfRange::drop, {}, issued_at);
}

AnyBags hash_to_tables(AnyTableBatch const& tables,
                       TensorOf<std::int64_t> const& keys,
                       std::uint64_t salt,
                       std::source_location issued_at) {
  kernels::TableRowsArgs args{};
  args.hashed = true;
  args.ids_by_table = true;
  args.salt = salt;
  return table_rows("hash_to_tables",
                    tables,
                    sample_major(tables.tables(), keys),
                    args,
                    OutOfRange::drop,
                    {},
                    issued_at);
}

AnyBags rows_of_tables(AnyTableBatch const& tables,
                       AnyBags const& ids,
                       OutOfRange policy,
                       std::optional<TensorOf<std::int64_t>> const& bad_id_count,
                       std::source_location issued_at) {
  return table_rows("rows_of_tables", tables, ids, {}, policy, bad_id_count, issued_at);
}

AnyBags rows_of_tables(AnyTableBatch const& tables,
                       TensorOf<std::int64_t> const& ids,
                       OutOfRange policy,
                       std::optional<TensorOf<std::int64_t>> const& bad_id_count,
                       std::source_location issued_at) {
  kernels::TableRowsArgs args{};
  args.ids_by_table = true;
  return table_rows("rows_of_tables",
                    tables,
                    sample_major(tables.tables(), ids),
                    args,
                    policy,
                    bad_id_count,
                    issued_at);
}

Floats embedding_lookup(AnyTableBatch const& tables,
                        AnyBags const& rows,
                        Pooling pooling,
                        std::source_location issued_at) {
  auto const& weights = tables.weights();
  return Floats(msstream::detail::OfKnownType(),
                embedding_lookup(DType::float32, weights, rows, {.pooling = pooling}, issued_at))
      .reshaped({rows.bags() / tables.tables(), tables.tables() * weights.shape()[1]});
}

}  // namespace msstream::ops::detail
