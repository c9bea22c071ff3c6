// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_table.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops {

/// Embedding tables of any sizes, widths, types and poolings that are looked up in one launch.
///
/// Holds the tables, and their descriptors in device memory. The descriptors are uploaded once, so
/// that a lookup costs one launch and a captured lookup can be replayed. Copies share the tables
/// and the descriptors. A lookup reads the contents that the tables have when it runs. Each lookup
/// is ordered after the last writes of the tables, which costs the host least if the tables are
/// frozen, or if they are rows() of a few tensors.
template <Runtime R = DefaultRuntime>
class EmbeddingTables {
 public:
  /// Uploads the descriptors and blocks the host until that is complete. Not allowed within a
  /// capture. Throws std::invalid_argument if there are no tables, for shapes other than [rows,
  /// width], for a hotness below 0, for a default id outside its table, and for Pooling::none.
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
  /// Returns one table. Throws std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] EmbeddingTable<R> const& table(std::int64_t number) const {
    return tables_[index(number)];
  }
  /// The number of output columns of a lookup: the sum of the widths of all tables.
  [[nodiscard]] std::int64_t width() const noexcept { return plan_->width; }
  /// The number of ids per sample if a lookup has no offsets: the sum of the hotness of all tables.
  [[nodiscard]] std::int64_t hotness() const noexcept { return plan_->hotness; }
  /// Returns the first output column of a table in the result of a lookup. Throws
  /// std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] std::int64_t first_column(std::int64_t number) const {
    return plan_->tables[index(number)].first_column;
  }
  /// Returns the index of a table's first row among the rows of all tables, numbered table by
  /// table. Throws std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] std::int64_t first_row(std::int64_t number) const {
    return plan_->first_rows[index(number)];
  }
  /// Returns the index of a table's first id, for ids of `batch` samples without offsets. Throws
  /// std::invalid_argument unless the number is in [0, tables()).
  [[nodiscard]] std::int64_t first_place(std::int64_t number, std::int64_t batch) const {
    return batch * plan_->tables[index(number)].first_hotness;
  }
  [[nodiscard]] std::shared_ptr<msstream::detail::DeviceState> const& device() const noexcept {
    return descriptors_.device();
  }

  /// The plan by which kernels divide the work. Its arrays are in device memory: an operation
  /// declares plan_reads() for them, or read() for them and the tables.
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

/// The ids of many tables, stored table by table, for `batch` bags of each table.
///
/// Without offsets each table has [batch, hotness] ids, which start at first_place() of the table,
/// and `ids` has the ids of all tables.
///
/// With `offsets`, [tables * batch + 1], ascending, of the ids' type, `ids` is [capacity], and bag
/// b of table t has the ids ids[offsets[t * batch + b] : offsets[t * batch + b + 1]]: a keyed
/// jagged array. Ids that are in one tensor per table can be concatenated to this layout.
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
  DeviceCount<R> batch_count = {};
  std::optional<Tensor<float, R>> weights = {};
};

template <Runtime R = DefaultRuntime>
struct TablesLookupOptions {
  OutOfRange out_of_range = OutOfRange::drop;
  /// For OutOfRange::count: a device scalar that is incremented by the number of bad ids and bad
  /// bags.
  std::optional<Tensor<std::int64_t, R>> bad_id_count = {};
};

/// Pools rows of all tables in one launch: [batch, tables.width()] of Out (float32, float16 or
/// bfloat16). The columns of table t start at tables.first_column(t) and have the values that
/// embedding_lookup() of the table alone gives: accumulated in float32 in the order of the ids and
/// rounded to nearest even. A bag without a valid id gives the row of its default id, or 0. NaN and
/// infinity propagate in sums by IEEE 754; a maximum is NaN if any of its elements is NaN.
///
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if ids, offsets, weights
/// or counts do not have the shapes of TableBags, and for weights of a table with Pooling::max.
/// Bags whose offsets do not ascend within the ids, and OutOfRange, are handled as in a lookup of
/// one table; OutOfRange::trap reports bag b of table t as bag t * batch + b.
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
