// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/distinct_rows.hpp"

#include "ops/common/id_trap.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding_gradient/merged_gradients.hpp"
#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::detail {

namespace kernels = ops::kernels;

namespace {

/// Returns the numbers by which a report names the tables.
[[nodiscard]] std::vector<std::uint32_t> operations_of(ShardedTablesState const& tables) {
  NameScope const names("sharded_tables");
  std::vector<std::uint32_t> operations;
  for (auto const& table : tables.tables()) {
    auto const name =
        fmt::format("table '{}', of which TableSpec::most_distinct bounds a lookup", table.name);
    operations.push_back(ops::detail::trap_of(*tables.device(), name.c_str()).operation);
  }
  return operations;
}

}  // namespace

DistinctRows::DistinctRows(ShardedTablesState const& tables, std::source_location issued_at)
    : layout_(tables.tables(), tables.layout(), tables.options().most_samples),
      elements_(tables.device(), {layout_.elements}) {
  std::tie(slots_, messages_, borders_, rooms_, bags_, all_, all_rows_, operations_) =
      arrays_.uploaded(tables.device(),
                       issued_at,
                       layout_.slots,
                       layout_.messages,
                       layout_.borders,
                       layout_.rooms,
                       layout_.bags,
                       layout_.all,
                       layout_.all_rows,
                       operations_of(tables));
  std::vector<ops::EmbeddingTable<AnyRuntime>> at_home;
  for (std::size_t t = 0; t < tables.tables().size(); ++t) {
    auto const& table = tables.tables()[t];
    auto const begin = layout_.first_elements[t];
    auto const end = begin + layout_.rooms[t] * table.width;
    at_home.push_back(
        {.weights = elements_.rows(begin, end).reshaped({layout_.rooms[t], table.width}),
         .pooling = table.pooling});
  }
  at_home_.emplace(tables.device(), std::move(at_home), issued_at);
}

std::optional<TensorOf<std::int32_t>> DistinctRows::argmax_for(DistinctIds const& ids) const {
  if (!ops::detail::needs_argmax(*at_home_, ids.bags)) {
    return std::nullopt;
  }
  return TensorOf<std::int32_t>(at_home_->device(), at_home_->argmax_shape(ids.bags.batch));
}

Floats DistinctRows::lookup(ShardedTablesState const& tables,
                            DistinctIds const& ids,
                            std::optional<AheadRows> const& ahead,
                            std::optional<TensorOf<std::int32_t>> const& argmax,
                            std::source_location issued_at) const {
  auto const& device = tables.device();
  auto const ranks = tables.ranks();
  kernels::PlacedRowsArgs args{at_home(ids, layout_.row_stride), false, nullptr, elements_.data()};
  auto const place = [&](Floats const& rows, TensorOf<std::int64_t> const& numbers) {
    place_rows(args, ids, numbers, rows, issued_at);
  };
  if (tables.layout().widest > 0 && (!ahead || !ahead->split)) {
    place(ahead ? ahead->rows : received_rows(tables, ids.received, issued_at), ids.sent);
  } else if (tables.layout().widest > 0) {
    args.has_positions = true;
    place(ahead->rows, ahead->split->here);
    place(received_rows(tables, ahead->split->late_sent, issued_at), ahead->split->late);
  }
  if (tables.replicated()) {
    auto const own = ids.sent.rows(ranks, ranks + 1);
    Floats const rows(device, {1, layout_.row_stride});
    send_rows(*tables.replicated(),
              own,
              static_cast<std::size_t>(ranks),
              rows,
              TensorOf<std::int64_t>(device, {1}),
              issued_at);
    auto const& message = layout_.messages.back();
    args.has_positions = false;
    args.at.first_slot = message.first_slot;
    args.at.slot_count = message.slots;
    args.first_message = ranks;
    place(rows, ids.sent);
  }
  return Floats(OfKnownType(),
                ops::detail::embedding_lookup(
                    DType::float32, *at_home_, ids.bags, {.argmax = argmax}, issued_at));
}

Floats DistinctRows::received_rows(ShardedTablesState const& tables,
                                   TensorOf<std::int64_t> const& ids,
                                   std::source_location issued_at) const {
  auto const& device = tables.device();
  auto const ranks = tables.ranks();
  Floats const sent(device, {ranks, layout_.row_stride});
  TensorOf<std::int64_t> const counts(device, {ranks});
  if (tables.divided()) {
    send_rows(*tables.divided(),
              ids,
              static_cast<std::size_t>(tables.communicator().rank()),
              sent,
              counts,
              issued_at);
  } else {
    fill_any(sent.any(), 0, issued_at);
    fill_any(counts.any(), 0, issued_at);
  }
  Floats received(device, {ranks, layout_.row_stride});
  TensorOf<std::int64_t> const received_counts(device, {ranks});
  comm::detail::all_to_all(tables.communicator(),
                           sent.any(),
                           counts.any(),
                           received.any(),
                           received_counts.any(),
                           issued_at);
  return received;
}

void DistinctRows::place_rows(kernels::PlacedRowsArgs args,
                              DistinctIds const& ids,
                              TensorOf<std::int64_t> const& numbers,
                              Floats const& rows,
                              std::source_location issued_at) const {
  args.at.numbers = numbers.data();
  args.rows = rows.data();
  issue(
      "placed_rows",
      reads(arrays_.all(), rows, numbers, ids.places),
      writes(elements_),
      [args](auto stream) { kernels::placed_rows(stream, args); },
      {},
      issued_at);
}

kernels::SlotsAtHome DistinctRows::at_home(DistinctIds const& ids, std::int64_t row_stride) const {
  return {.slots = slots_,
          .messages = messages_,
          .first_slot = 0,
          .slot_count = layout_.slots_of_ranks,
          .numbers = ids.sent.data(),
          .stride = layout_.id_stride,
          .places = ids.places.data(),
          .row_stride = row_stride,
          .most_elements = layout_.most_elements};
}

void DistinctRows::send_rows(Tables const& rows_of,
                             TensorOf<std::int64_t> const& ids,
                             std::size_t message,
                             Floats const& rows,
                             TensorOf<std::int64_t> const& counts,
                             std::source_location issued_at) const {
  auto const& about = layout_.messages[message];
  kernels::SentRowsArgs const args{
      .tables = rows_of.in_use().descriptors(),
      .table_count = rows_of.tables(),
      .ids = {ids.data(), layout_.id_stride, about.slots, about.capacity, layout_.row_stride},
      .messages = ids.shape()[0],
      .most_elements = layout_.most_elements,
      .rows = rows.data(),
      .counts = counts.data()};
  auto read = rows_of.in_use().read;
  read.add(arrays_.all());
  read.add(ids);
  issue(
      "sent_rows",
      read,
      writes(rows, counts),
      [args](auto stream) { kernels::sent_rows(stream, args); },
      {},
      issued_at);
}

void DistinctRows::send_back(ShardedTablesState const& tables,
                             AnyTape& tape,
                             DistinctIds const& ids,
                             Floats const& gradient,
                             std::optional<TensorOf<std::int32_t>> const& argmax,
                             std::source_location issued_at) const {
  auto const& device = tables.device();
  auto const ranks = tables.ranks();
  auto const of_rows = ops::detail::embedding_tables_gradient(
      *at_home_, ids.bags, gradient.any(), argmax, issued_at);
  Floats const sent(device, {ranks, layout_.gradient_stride});
  TensorOf<std::int64_t> const counts(device, {ranks});
  kernels::SentGradientsArgs const args{.at = at_home(ids, layout_.gradient_stride),
                                        .message_count = ranks,
                                        .values = of_rows.values.data(),
                                        .value_rows = of_rows.values.shape()[0],
                                        .value_columns = of_rows.values.shape()[1],
                                        .table_starts = of_rows.table_starts.data(),
                                        .scale = tables.scale(),
                                        .rows = sent.data(),
                                        .counts = counts.data()};
  issue(
      "sent_gradients",
      reads(arrays_.all(), of_rows.values, of_rows.table_starts, ids.sent, ids.places),
      writes(sent, counts),
      [args](auto stream) { kernels::sent_gradients(stream, args); },
      {},
      issued_at);
  Floats const received(device, {ranks, layout_.gradient_stride});
  TensorOf<std::int64_t> const received_counts(device, {ranks});
  comm::detail::all_to_all(tables.communicator(),
                           sent.any(),
                           counts.any(),
                           received.any(),
                           received_counts.any(),
                           issued_at);
  auto const rank = static_cast<std::size_t>(tables.communicator().rank());
  if (tables.divided()) {
    add_rows(tables,
             tape,
             {&*tables.divided(), 0, layout_.divided_rooms[rank]},
             ids,
             received,
             issued_at);
  }
  // By themselves, because the bits of a sum may depend on the other rows of an operation, and all
  // ranks must move a replicated table equally.
  if (tables.replicated()) {
    add_rows(tables,
             tape,
             {&*tables.replicated(), tables.own().divided, layout_.replicated_room},
             ids,
             received,
             issued_at);
  }
}

void DistinctRows::add_rows(ShardedTablesState const& tables,
                            AnyTape& tape,
                            Blocks const& blocks,
                            DistinctIds const& ids,
                            Floats const& gradients,
                            std::source_location issued_at) const {
  auto const& device = tables.device();
  auto const ranks = tables.ranks();
  auto const rank = static_cast<std::size_t>(tables.communicator().rank());
  auto const& message = layout_.messages[rank];
  auto const& in_use = blocks.tables->in_use();
  auto const count = blocks.tables->tables();
  auto const columns = in_use.plan->widest;
  TensorOf<std::int64_t> const keys(device, {ranks * blocks.room});
  Floats const values(device, {ranks * blocks.room, columns});
  fill_any(keys.any(), 0xFF, issued_at);  // -1
  kernels::ReceivedGradientsArgs const args{.tables = in_use.descriptors(),
                                            .first_rows = in_use.first_rows(),
                                            .table_count = count,
                                            .first_slot = static_cast<std::int64_t>(blocks.first),
                                            .ids = {ids.received.data(),
                                                    layout_.id_stride,
                                                    message.slots,
                                                    message.capacity,
                                                    layout_.gradient_stride},
                                            .messages = ranks,
                                            .rows = gradients.data(),
                                            .most_elements = layout_.most_ids * columns,
                                            .room = blocks.room,
                                            .columns = columns,
                                            .keys = keys.data(),
                                            .values = values.data()};
  auto read = in_use.plan_reads();
  read.add(arrays_.all());
  read.add(ids.received);
  read.add(gradients);
  issue(
      "received_gradients",
      read,
      writes(keys, values),
      [args](auto stream) { kernels::received_gradients(stream, args); },
      {},
      issued_at);
  auto const sums =
      ops::detail::sum_of_rows(keys, values, in_use.plan->first_rows.back(), issued_at);
  auto const starts =
      bounds_of(tables, sums.ids, sums.count, in_use.first_rows(), count + 1, issued_at);
  auto const rows = std::make_shared<ops::detail::TablesGradient const>(
      ops::TablesRowGradients<AnyRuntime>{sums.ids, sums.count, starts, sums.values});
  for (std::int64_t t = 0; t < count; ++t) {
    auto const& part = tables.parts()[blocks.first + static_cast<std::size_t>(t)];
    auto const most = std::min(part.block.rows, ranks * layout_.rooms[part.block.table]);
    tape.add_table_part(part.weights, {rows, t, blocks.tables->first_row(t), most}, issued_at);
  }
}

TensorOf<std::int64_t> DistinctRows::bounds_of(ShardedTablesState const& tables,
                                               TensorOf<std::int64_t> const& values,
                                               TensorOf<std::int64_t> const& count,
                                               std::int64_t const* borders,
                                               std::int64_t border_count,
                                               std::source_location issued_at) const {
  TensorOf<std::int64_t> found(tables.device(), {border_count});
  kernels::LowerBoundsArgs const args{
      values.data(), count.data(), borders, border_count, found.data()};
  issue(
      "lower_bounds",
      reads(arrays_.all(), values, count),
      writes(found),
      [args](auto stream) { kernels::lower_bounds(stream, args); },
      {},
      issued_at);
  return found;
}

}  // namespace msstream::detail
