// SPDX-License-Identifier: Apache-2.0
#include "ops/common/id_trap.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "step/parallel/distinct_rows.hpp"
#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/ops/ids.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <optional>

namespace msstream::detail {

namespace kernels = ops::kernels;

DistinctIds DistinctRows::exchange(ShardedTablesState const& tables,
                                   ops::TableBags<AnyRuntime> const& bags,
                                   std::source_location issued_at) const {
  auto const& device = tables.device();
  auto const count = static_cast<std::int64_t>(layout_.rooms.size());
  auto const header = count * bags.batch + 1;
  auto const capacity = layout_.all[0].capacity;

  // The ids of all bags, table by table, behind their offsets.
  TensorOf<std::int64_t> const packed(device, {header + capacity});
  TensorOf<std::int64_t> const lengths(device, {count * bags.batch});
  auto read = reads(arrays_.all());
  ops::detail::add_bags(bags, read);
  auto written = writes(lengths);
  kernels::SentBagsArgs const from{
      .slots = bags_,
      .slot_count = count,
      .messages = all_,
      .message_count = 1,
      .most_bags = bags.batch,
      .bags = shard_bags_of(count, bags),
      .report = tables.report_of_ids(written),
      .overflow = ops::detail::id_report("ShardedTables: the most ids of all tables, by "
                                         "TableSpec::hotness",
                                         *device,
                                         ops::OutOfRange::trap,
                                         std::nullopt,
                                         written)};
  if (bags.batch == 0) {
    fill_any(packed.rows(0, 1).any(), 0, issued_at);
  } else {
    issue(
        "sent_lengths",
        read,
        written,
        [from, to = lengths.data()](auto stream) { kernels::sent_lengths(stream, from, to); },
        {},
        issued_at);
    auto const offsets = ops::detail::lengths_to_offsets(lengths.any(), {}, issued_at);
    TensorOf<std::int64_t> const numbers(device, {1});
    read.add(offsets);
    kernels::SentIds const to{offsets.data(), packed.data(), packed.count(), numbers.data()};
    issue(
        "sent_ids",
        read,
        writes(packed, numbers),
        [from, to](auto stream) { kernels::sent_ids(stream, from, to); },
        {},
        issued_at);
  }
  kernels::ReceivedBagsArgs of_bags{.rows = all_rows_,
                                    .slots = count,
                                    .ranks = 1,
                                    .most_bags = bags.batch,
                                    .messages = packed.data(),
                                    .stride = packed.count(),
                                    .capacity = capacity};
  auto const number = [&](kernels::ReceivedBagsArgs const& args,
                          ops::detail::Reads const& reads_of_ids,
                          TensorOf<std::int64_t> const& to) {
    issue(
        "received_ids",
        reads_of_ids,
        writes(to),
        [args, numbers = to.data()](auto stream) {
          kernels::received_ids(stream, args, args.messages, numbers);
        },
        {},
        issued_at);
  };
  TensorOf<std::int64_t> const keys(device, {capacity});
  number(of_bags, reads(arrays_.all(), packed), keys);
  auto const existing = packed.rows(header - 1, header).reshaped(Shape{});
  auto const unique =
      ops::detail::unique(keys.any(), {.below = layout_.rows, .count = existing}, issued_at);
  TensorOf<std::int64_t> const values(OfKnownType(), unique.values);
  auto const bounds = bounds_of(tables,
                                values,
                                unique.count,
                                borders_,
                                static_cast<std::int64_t>(layout_.borders.size()),
                                issued_at);
  auto const messages = static_cast<std::int64_t>(layout_.messages.size());
  auto const slots = static_cast<std::int64_t>(layout_.slots.size());
  TensorOf<std::int64_t> const sent(device, {messages, layout_.id_stride});
  TensorOf<std::int64_t> const counts(device, {messages});
  TensorOf<std::int64_t> const places(device, {slots});
  constexpr auto kNumbersOfRange =
      static_cast<std::int64_t>(sizeof(kernels::ShardRows) / sizeof(std::int64_t));
  TensorOf<std::int64_t> const ranges(device, {count * kNumbersOfRange});
  auto* const ranges_of_tables = reinterpret_cast<kernels::ShardRows*>(ranges.data());
  auto of_ids = writes(sent, counts, places, ranges);
  kernels::DistinctIdsArgs const args{
      .slots = slots_,
      .messages = messages_,
      .slot_count = slots,
      .message_count = messages,
      .table_count = count,
      .rooms = rooms_,
      .operations = operations_,
      .overflow = ops::detail::id_report(
          "ShardedTables", *device, ops::OutOfRange::trap, std::nullopt, of_ids),
      .values = values.data(),
      .bounds = bounds.data(),
      .most_ids = layout_.most_ids,
      .numbers = sent.data(),
      .stride = layout_.id_stride,
      .counts = counts.data(),
      .places = places.data(),
      .ranges = ranges_of_tables};
  issue(
      "distinct_ids",
      reads(arrays_.all(), values, bounds),
      of_ids,
      [args](auto stream) { kernels::distinct_ids(stream, args); },
      {},
      issued_at);
  TensorOf<std::int64_t> const ids(device, {capacity});
  of_bags.rows = ranges_of_tables;
  of_bags.ids = unique.inverse.data();
  number(of_bags, reads(arrays_.all(), packed, ranges, unique.inverse), ids);

  auto const ranks = tables.ranks();
  TensorOf<std::int64_t> const received(device, {ranks, layout_.id_stride});
  TensorOf<std::int64_t> const received_counts(device, {ranks});
  comm::detail::all_to_all(tables.communicator(),
                           sent.rows(0, ranks).any(),
                           counts.rows(0, ranks).any(),
                           received.any(),
                           received_counts.any(),
                           issued_at);
  return {{ids, bags.batch, ops::detail::AnyIds(packed.rows(0, header))}, sent, received, places};
}

}  // namespace msstream::detail
