// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_table.hpp>
#include <msstream/ops/id_trap.hpp>
#include <msstream/ops/kernels/embedding_tables.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops {

/// Embedding tables of any sizes, widths, types and poolings that one launch looks up in.
///
/// Holds the tables, and their descriptors in device memory; those are uploaded once, so that a
/// lookup costs one launch and a captured one can be replayed. A copy shares all. What is looked up
/// is what the tables hold then; each lookup is ordered after the tables' last writes, which costs
/// the host least where the tables are frozen, or rows() of a few tensors.
template <Runtime R = DefaultRuntime>
class EmbeddingTables {
 public:
  /// Blocks the host until the descriptors are uploaded; not within a capture. Throws
  /// std::invalid_argument for no tables, for shapes other than [rows, width], a hotness below 0, a
  /// default id that a table does not have, and for Pooling::none.
  EmbeddingTables(Device<R> const& device,
                  std::vector<EmbeddingTable<R>> tables,
                  std::source_location issued_at = std::source_location::current())
      : tables_(std::move(tables)),
        plan_(std::make_shared<kernels::TablePlan const>(plan_of(tables_))),
        descriptors_(upload(device, plan_->tables, issued_at)),
        table_of_tile_(upload(device, plan_->table_of_tile, issued_at)),
        first_rows_(upload(device, plan_->first_rows, issued_at)),
        read_(plan_reads()) {
    for (auto const& table : tables_) {
      std::visit([&](auto const& weights) { read_.add(weights); }, table.weights);
    }
  }

  [[nodiscard]] std::int64_t tables() const noexcept {
    return static_cast<std::int64_t>(tables_.size());
  }
  /// Throws std::invalid_argument for a number that is not below tables().
  [[nodiscard]] EmbeddingTable<R> const& table(std::int64_t number) const {
    return tables_[index(number)];
  }
  /// Of all tables, side by side: the columns of a lookup.
  [[nodiscard]] std::int64_t width() const noexcept { return plan_->width; }
  /// Of all tables: the ids of a sample where a lookup has no offsets.
  [[nodiscard]] std::int64_t hotness() const noexcept { return plan_->hotness; }
  /// Where a table's columns begin in what a lookup gives. Throws as table().
  [[nodiscard]] std::int64_t first_column(std::int64_t number) const {
    return plan_->tables[index(number)].first_column;
  }
  /// Where a table's rows begin among those of all tables. Throws as table().
  [[nodiscard]] std::int64_t first_row(std::int64_t number) const {
    return plan_->first_rows[index(number)];
  }
  /// Where a table's ids begin, in ids of `batch` samples without offsets. Throws as table().
  [[nodiscard]] std::int64_t first_place(std::int64_t number, std::int64_t batch) const {
    return batch * plan_->tables[index(number)].first_hotness;
  }
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& device() const noexcept {
    return descriptors_.device();
  }

  /// For operations on the tables: how work is shared out, its parts on the device, which an
  /// operation reads (plan_reads), with the tables themselves (read).
  [[nodiscard]] std::shared_ptr<kernels::TablePlan const> const& plan() const noexcept {
    return plan_;
  }
  [[nodiscard]] kernels::TableDescriptor const* descriptors() const noexcept {
    return reinterpret_cast<kernels::TableDescriptor const*>(descriptors_.data());
  }
  [[nodiscard]] std::int32_t const* table_of_tile() const noexcept {
    return reinterpret_cast<std::int32_t const*>(table_of_tile_.data());
  }
  [[nodiscard]] std::int64_t const* first_rows() const noexcept {
    return reinterpret_cast<std::int64_t const*>(first_rows_.data());
  }
  [[nodiscard]] msstream::detail::Uses<R, AccessMode::read> plan_reads() const {
    return reads(descriptors_, table_of_tile_, first_rows_);
  }
  [[nodiscard]] msstream::detail::Uses<R, AccessMode::read> const& read() const noexcept {
    return read_;
  }

 private:
  static kernels::TablePlan plan_of(std::vector<EmbeddingTable<R>> const& tables) {
    require(!tables.empty(), "embedding tables: there are none");
    std::vector<kernels::TableDescriptor> descriptors;
    for (auto const& table : tables) {
      descriptors.push_back(detail::describe_table(descriptors.size(), table));
    }
    return kernels::plan_tables(std::move(descriptors));
  }
  template <class T>
  static Tensor<std::uint8_t, R> upload(Device<R> const& device,
                                        std::vector<T> const& values,
                                        std::source_location issued_at) {
    std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    auto on_device = to_device<std::uint8_t, R>(
        device, bytes, {static_cast<std::int64_t>(bytes.size())}, issued_at);
    on_device.freeze();
    return on_device;
  }
  [[nodiscard]] std::size_t index(std::int64_t number) const {
    require(number >= 0 && number < tables(), "table ", number, " of ", tables());
    return static_cast<std::size_t>(number);
  }

  std::vector<EmbeddingTable<R>> tables_;
  std::shared_ptr<kernels::TablePlan const> plan_;
  Tensor<std::uint8_t, R> descriptors_;
  Tensor<std::uint8_t, R> table_of_tile_;
  Tensor<std::uint8_t, R> first_rows_;
  msstream::detail::Uses<R, AccessMode::read> read_;
};

/// The ids of many tables, table by table, for `batch` bags of each.
///
/// Without offsets each table has [batch, hotness] of them, and `ids` is as long as all together:
/// the table's begin at first_place(). With `offsets`, [tables * batch + 1], ascending, of the ids'
/// type, `ids` is [capacity], and bag b of table t has ids[offsets[t * batch + b] : offsets[t *
/// batch + b + 1]]: a keyed jagged array. Ids that lie in a tensor a table become this by
/// concatenation. batch_count: a device scalar, how many of the bags of each table exist; the ids
/// lie as for the whole batch, and later output rows are 0. weights: [as ids], what each id's row
/// is multiplied with.
template <Runtime R = DefaultRuntime>
struct TableBags {
  IdTensor<R> ids;
  std::int64_t batch;
  std::optional<IdTensor<R>> offsets = {};
  DeviceCount<R> batch_count = {};
  std::optional<Tensor<float, R>> weights = {};
};

template <Runtime R = DefaultRuntime>
struct TablesLookupOptions {
  OutOfRange out_of_range = OutOfRange::drop;
  /// For OutOfRange::count: a device scalar that grows by the number of bad ids and bad bags.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
};

namespace detail {

template <Runtime R>
void require_bags(char const* name, EmbeddingTables<R> const& tables, TableBags<R> const& bags) {
  auto const& ids = bags.ids;
  require(bags.batch >= 0, name, ": a batch of ", bags.batch);
  if (bags.offsets) {
    require(bags.offsets->count() == tables.tables() * bags.batch + 1,
            name,
            ": offsets of shape ",
            bags.offsets->shape(),
            " for ",
            tables.tables(),
            " tables and a batch of ",
            bags.batch,
            "; expected [tables * batch + 1]");
    require(bags.offsets->dtype() == ids.dtype(),
            name,
            ": ids of ",
            name_of(ids.dtype()),
            " with offsets of ",
            name_of(bags.offsets->dtype()),
            "; expected the same type");
  } else {
    require(ids.count() == tables.hotness() * bags.batch,
            name,
            ": ids of shape ",
            ids.shape(),
            " for a hotness of ",
            tables.hotness(),
            " in all tables and a batch of ",
            bags.batch);
  }
  require(!bags.batch_count || bags.batch_count->count() == 1,
          name,
          ": a batch_count of shape ",
          bags.batch_count ? bags.batch_count->shape() : Shape{},
          "; expected a scalar");
  require(!bags.weights || bags.weights->count() == ids.count(),
          name,
          ": weights of shape ",
          bags.weights ? bags.weights->shape() : Shape{},
          " for ids of shape ",
          ids.shape());
  for (std::int64_t t = 0; bags.weights && t < tables.tables(); ++t) {
    require(tables.table(t).pooling != Pooling::max,
            name,
            ": table ",
            t,
            " takes the maximum, which has no weights");
  }
}

/// All that an operation on the tables and the bags reads.
template <Runtime R>
msstream::detail::Uses<R, AccessMode::read> reads_of(EmbeddingTables<R> const& tables,
                                                     TableBags<R> const& bags) {
  auto read = tables.read();
  bags.ids.visit([&](auto const& ids) { read.add(ids); });
  if (bags.offsets) {
    bags.offsets->visit([&](auto const& offsets) { read.add(offsets); });
  }
  if (bags.batch_count) {
    read.add(*bags.batch_count);
  }
  if (bags.weights) {
    read.add(*bags.weights);
  }
  return read;
}

/// What a lookup's kernel is told, but for the plan, the report and the output.
template <Runtime R>
kernels::TablesLookupArgs lookup_args(EmbeddingTables<R> const& tables, TableBags<R> const& bags) {
  return {.plan = nullptr,
          .tables = tables.descriptors(),
          .table_of_tile = tables.table_of_tile(),
          .batch = bags.batch,
          .ids = bags.ids.data(),
          .id_dtype = bags.ids.dtype(),
          .capacity = bags.ids.count(),
          .offsets = bags.offsets ? bags.offsets->data() : nullptr,
          .offset_bags = bags.offsets ? bags.offsets->count() - 1 : 0,
          .batch_count = bags.batch_count ? bags.batch_count->data() : nullptr,
          .weights = bags.weights ? bags.weights->data() : nullptr};
}

}  // namespace detail

/// Pools rows of all tables in one launch: [batch, tables.width()] of Out (float32, float16 or
/// bfloat16), the columns of table t from tables.first_column(t) on, each as embedding_lookup() of
/// the table has it: accumulated in float32 in the order of the ids, rounded to nearest even; bags
/// without a valid id give the default id's row, or 0; NaN and infinity as IEEE 754 has it, and a
/// maximum with a NaN is NaN.
///
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument for ids, offsets,
/// weights or counts of other shapes than TableBags has, and for weights of a maximum. Bags whose
/// offsets do not ascend within the ids, and OutOfRange, are as for one table; a trap names bag t *
/// batch + b.
template <Element Out = float, Runtime R>
[[nodiscard]] Tensor<Out, R> embedding_lookup(
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    TablesLookupOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  constexpr char const* kName = "embedding_tables_lookup";
  detail::require_weights<Out>(kName);
  detail::require_bags(kName, tables, bags);
  Tensor<Out, R> pooled(tables.device(), {bags.batch, tables.width()});
  auto args = detail::lookup_args(tables, bags);
  auto written = writes(pooled);
  args.report = detail::id_report(
      kName, *tables.device(), options.out_of_range, options.bad_id_count, written);
  args.output = pooled.data();
  args.output_dtype = dtype_of<Out>;
  issue(
      kName,
      detail::reads_of(tables, bags),
      written,
      [args, plan = tables.plan()](auto stream) mutable {
        args.plan = plan.get();
        kernels::embedding_tables_lookup(stream, args);
      },
      {},
      issued_at);
  return pooled;
}

}  // namespace msstream::ops
