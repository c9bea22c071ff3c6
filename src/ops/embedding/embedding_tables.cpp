// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding_tables.hpp"

#include "ops/common/id_trap.hpp"
#include "ops/elementwise/columns.hpp"
#include "ops/embedding/embedding.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops {

namespace detail {

AnyTensor const& weights_of(EmbeddingTable<AnyRuntime> const& table) {
  return std::visit([](auto const& weights) -> AnyTensor const& { return weights.any(); },
                    table.weights);
}

namespace {

kernels::TableDescriptor describe(std::size_t number, EmbeddingTable<AnyRuntime> const& table) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  auto const& weights = weights_of(table);
  auto const& shape = weights.shape();
  require(shape.rank() == 2 && shape[1] >= 1 && shape[1] <= kMost,
          "embedding table {} of shape {}; expected [rows, width], at least one column wide",
          number,
          shape);
  require(table.pooling != Pooling::none,
          "embedding table {}: tables that are looked up together are pooled",
          number);
  require(table.hotness >= 0 && table.hotness <= kMost,
          "embedding table {}: a hotness of {}; expected 0 to {}",
          number,
          table.hotness,
          kMost);
  auto const default_id = table.default_id.value_or(-1);
  require(!table.default_id || (default_id >= 0 && default_id < shape[0]),
          "embedding table {}: a default id of {} for {} rows",
          number,
          default_id,
          shape[0]);
  return kernels::TableDescriptor{.table = weights.data(),
                                  .rows = shape[0],
                                  .default_id = default_id,
                                  .width = static_cast<std::int32_t>(shape[1]),
                                  .hotness = static_cast<std::int32_t>(table.hotness),
                                  .dtype = weights.dtype(),
                                  .pooling = table.pooling};
}

kernels::TablePlan plan_of(std::vector<EmbeddingTable<AnyRuntime>> const& tables) {
  require(!tables.empty(), "embedding tables: there are none");
  std::vector<kernels::TableDescriptor> descriptors;
  descriptors.reserve(tables.size());
  for (auto const& table : tables) {
    descriptors.push_back(describe(descriptors.size(), table));
  }
  return kernels::plan_tables(std::move(descriptors));
}

template <class T>
TensorOf<std::uint8_t> upload(std::shared_ptr<DeviceState> const& device,
                              std::vector<T> const& values,
                              std::source_location issued_at) {
  auto const bytes = values.size() * sizeof(T);
  TensorOf<std::uint8_t> on_device(msstream::detail::upload(
      device, DType::uint8, values.data(), bytes, {static_cast<std::int64_t>(bytes)}, issued_at));
  on_device.freeze();
  return on_device;
}

std::size_t index_of(TablesInUse const& in_use, std::int64_t number) {
  auto const tables = static_cast<std::int64_t>(in_use.tables.size());
  require(number >= 0 && number < tables, "table {} of {}", number, tables);
  return static_cast<std::size_t>(number);
}

}  // namespace

void require_bags(char const* name,
                  EmbeddingTables<AnyRuntime> const& tables,
                  TableBags<AnyRuntime> const& bags) {
  auto const& ids = bags.ids;
  require(bags.batch >= 0, "{}: a batch of {}; expected 0 or more", name, bags.batch);
  if (bags.offsets) {
    require(
        bags.offsets->count() == tables.tables() * bags.batch + 1,
        "{}: offsets of shape {} for {} tables and a batch of {}; expected [tables * batch + 1]",
        name,
        bags.offsets->shape(),
        tables.tables(),
        bags.batch);
    require(bags.offsets->dtype() == ids.dtype(),
            "{}: ids of {} with offsets of {}; expected the same type",
            name,
            ids.dtype(),
            bags.offsets->dtype());
  } else {
    require(ids.count() == tables.hotness() * bags.batch,
            "{}: ids of shape {} for a hotness of {} in all tables and a batch of {}",
            name,
            ids.shape(),
            tables.hotness(),
            bags.batch);
  }
  require(!bags.batch_count || bags.batch_count->count() == 1,
          "{}: a batch_count of shape {}; expected a scalar",
          name,
          bags.batch_count ? bags.batch_count->shape() : Shape{});
  require(!bags.weights || bags.weights->count() == ids.count(),
          "{}: weights of shape {} for ids of shape {}",
          name,
          bags.weights ? bags.weights->shape() : Shape{},
          ids.shape());
  for (std::int64_t t = 0; bags.weights && t < tables.tables(); ++t) {
    require(tables.table(t).pooling != Pooling::max,
            "{}: table {} takes the maximum, which has no weights",
            name,
            t);
  }
}

bool needs_argmax(EmbeddingTables<AnyRuntime> const& tables, TableBags<AnyRuntime> const& bags) {
  auto const& plan = *tables.in_use().plan;
  return plan.argmax_width > 0 && (bags.offsets || !plan.gathers_maxima);
}

void require_argmax(char const* name,
                    EmbeddingTables<AnyRuntime> const& tables,
                    TableBags<AnyRuntime> const& bags,
                    std::optional<TensorOf<std::int32_t>> const& argmax) {
  require(!argmax || argmax->shape() == tables.argmax_shape(bags.batch),
          "{}: argmax of shape {}; expected that of the tables of Pooling::max, {}",
          name,
          argmax ? argmax->shape() : Shape{},
          tables.argmax_shape(bags.batch));
}

Reads reads_of(EmbeddingTables<AnyRuntime> const& tables, TableBags<AnyRuntime> const& bags) {
  auto read = tables.in_use().read;
  add_bags(bags, read);
  return read;
}

void add_bags(TableBags<AnyRuntime> const& bags, Reads& read) {
  read.add(bags.ids.any());
  if (bags.offsets) {
    read.add(bags.offsets->any());
  }
  if (bags.batch_count) {
    read.add(*bags.batch_count);
  }
  if (bags.weights) {
    read.add(*bags.weights);
  }
}

std::int64_t most_rows_of(EmbeddingTables<AnyRuntime> const& tables,
                          TableBags<AnyRuntime> const& bags,
                          std::int64_t table) {
  auto const& about = tables.table(table);
  auto const ids = bags.offsets ? bags.ids.count() : bags.batch * about.hotness;
  return std::min(weights_of(about).shape()[0], ids + (about.default_id ? 1 : 0));
}

kernels::TablesLookupArgs lookup_args(EmbeddingTables<AnyRuntime> const& tables,
                                      TableBags<AnyRuntime> const& bags) {
  return {.plan = nullptr,
          .tables = tables.in_use().descriptors(),
          .table_of_tile = tables.in_use().table_of_tile(),
          .batch = bags.batch,
          .ids = bags.ids.data(),
          .id_dtype = bags.ids.dtype(),
          .capacity = bags.ids.count(),
          .offsets = bags.offsets ? bags.offsets->data() : nullptr,
          .offset_bags = bags.offsets ? bags.offsets->count() - 1 : 0,
          .batch_count = bags.batch_count ? bags.batch_count->data() : nullptr,
          .weights = bags.weights ? bags.weights->data() : nullptr};
}

namespace {

/// Looks up pooled rows in the columns of a new tensor that follow `columns_before` others.
AnyTensor look_up_behind(std::int64_t columns_before,
                         DType output,
                         EmbeddingTables<AnyRuntime> const& tables,
                         TableBags<AnyRuntime> const& bags,
                         TablesLookupOptions<AnyRuntime> const& options,
                         std::source_location issued_at) {
  constexpr char const* kName = "embedding_tables_lookup";
  require_weights(kName, output);
  require_bags(kName, tables, bags);
  require_argmax(kName, tables, bags, options.argmax);
  auto const columns = columns_before + tables.width();
  AnyTensor pooled(tables.device(), output, {bags.batch, columns});
  auto args = lookup_args(tables, bags);
  auto written = writes(pooled);
  if (options.argmax) {
    args.plan = tables.in_use().plan.get();
    require(kernels::place_capacity(args) <= std::numeric_limits<std::int32_t>::max(),
            "{}: {} places of ids, of which an argmax has fewer than 2^31",
            kName,
            kernels::place_capacity(args));
    args.argmax = options.argmax->data();
    written.add(*options.argmax);
  }
  args.report =
      id_report(kName, *tables.device(), options.out_of_range, options.bad_id_count, written);
  args.output = static_cast<std::byte*>(pooled.data()) +
                static_cast<std::size_t>(columns_before) * bytes_of(output);
  args.output_dtype = output;
  args.output_stride = columns;
  issue(
      kName,
      reads_of(tables, bags),
      written,
      [args, plan = tables.in_use().plan](auto stream) mutable {
        args.plan = plan.get();
        kernels::embedding_tables_lookup(stream, args);
      },
      {},
      issued_at);
  return pooled;
}

}  // namespace

AnyTensor embedding_lookup(DType output,
                           EmbeddingTables<AnyRuntime> const& tables,
                           TableBags<AnyRuntime> const& bags,
                           TablesLookupOptions<AnyRuntime> const& options,
                           std::source_location issued_at) {
  return look_up_behind(0, output, tables, bags, options, issued_at);
}

AnyTensor embedding_lookup_beside(AnyTensor const& dense,
                                  EmbeddingTables<AnyRuntime> const& tables,
                                  TableBags<AnyRuntime> const& bags,
                                  TablesLookupOptions<AnyRuntime> const& options,
                                  std::source_location issued_at) {
  require(dense.shape().rank() == 2 && dense.shape()[0] == bags.batch,
          "embedding_lookup_beside: features of shape {} beside a batch of {}; expected [{}, n]",
          dense.shape(),
          bags.batch,
          bags.batch);
  auto joined = look_up_behind(dense.shape()[1], dense.dtype(), tables, bags, options, issued_at);
  copy_to_columns(dense, joined, 0, issued_at);
  return joined;
}

}  // namespace detail

EmbeddingTables<detail::AnyRuntime>::EmbeddingTables(
    std::shared_ptr<detail::DeviceState> const& device,
    std::vector<EmbeddingTable<detail::AnyRuntime>> tables,
    std::source_location issued_at) {
  auto const plan = std::make_shared<kernels::TablePlan const>(detail::plan_of(tables));
  auto in_use = std::make_shared<detail::TablesInUse>(
      detail::TablesInUse{std::move(tables),
                          plan,
                          detail::upload(device, plan->tables, issued_at),
                          detail::upload(device, plan->table_of_tile, issued_at),
                          detail::upload(device, plan->first_rows, issued_at),
                          {}});
  in_use->read = in_use->plan_reads();
  for (auto const& table : in_use->tables) {
    in_use->read.add(detail::weights_of(table));
  }
  in_use_ = std::move(in_use);
}

std::int64_t EmbeddingTables<detail::AnyRuntime>::tables() const noexcept {
  return static_cast<std::int64_t>(in_use_->tables.size());
}
EmbeddingTable<detail::AnyRuntime> const& EmbeddingTables<detail::AnyRuntime>::table(
    std::int64_t number) const {
  return in_use_->tables[detail::index_of(*in_use_, number)];
}
std::int64_t EmbeddingTables<detail::AnyRuntime>::width() const noexcept {
  return in_use_->plan->width;
}
std::int64_t EmbeddingTables<detail::AnyRuntime>::hotness() const noexcept {
  return in_use_->plan->hotness;
}
std::int64_t EmbeddingTables<detail::AnyRuntime>::first_column(std::int64_t number) const {
  return in_use_->plan->tables[detail::index_of(*in_use_, number)].first_column;
}
std::int64_t EmbeddingTables<detail::AnyRuntime>::first_row(std::int64_t number) const {
  return in_use_->plan->first_rows[detail::index_of(*in_use_, number)];
}
std::int64_t EmbeddingTables<detail::AnyRuntime>::first_place(std::int64_t number,
                                                              std::int64_t batch) const {
  return batch * in_use_->plan->tables[detail::index_of(*in_use_, number)].first_hotness;
}
Shape EmbeddingTables<detail::AnyRuntime>::argmax_shape(std::int64_t batch) const {
  return {batch, in_use_->plan->argmax_width};
}
std::shared_ptr<detail::DeviceState> const& EmbeddingTables<detail::AnyRuntime>::device()
    const noexcept {
  return in_use_->descriptors_bytes.device();
}

}  // namespace msstream::ops
