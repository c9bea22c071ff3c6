// SPDX-License-Identifier: Apache-2.0
#include "ops/common/id_array.hpp"
#include "ops/common/id_trap.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>

namespace msstream::detail {

namespace kernels = ops::kernels;

void ShardedTablesState::require_bags(Bags const& bags) const {
  constexpr char const* kName = "ShardedTables";
  auto const count = static_cast<std::int64_t>(tables_.size());
  require(bags.ids.device() == device_, "{}: ids on another device than the tables", kName);
  require(bags.batch >= 0 && bags.batch <= options_.most_samples,
          "{}: {} samples; expected at most {}, which most_samples says",
          kName,
          bags.batch,
          options_.most_samples);
  if (bags.offsets) {
    require(bags.offsets->count() == count * bags.batch + 1,
            "{}: offsets of shape {} for {} tables and {} samples; expected [tables * samples + 1]",
            kName,
            bags.offsets->shape(),
            count,
            bags.batch);
    require(bags.offsets->dtype() == bags.ids.dtype(),
            "{}: ids of {} with offsets of {}; expected the same type",
            kName,
            bags.ids.dtype(),
            bags.offsets->dtype());
  } else {
    require(bags.ids.count() == layout_.hotness * bags.batch,
            "{}: ids of shape {} for a hotness of {} in all tables and {} samples",
            kName,
            bags.ids.shape(),
            layout_.hotness,
            bags.batch);
  }
  require(!bags.batch_count || bags.batch_count->count() == 1,
          "{}: a batch_count of shape {}; expected a scalar",
          kName,
          bags.batch_count ? bags.batch_count->shape() : Shape{});
  require(!bags.weights || bags.weights->count() == bags.ids.count(),
          "{}: weights of shape {} for ids of shape {}",
          kName,
          bags.weights ? bags.weights->shape() : Shape{},
          bags.ids.shape());
  require(!bags.weights || !distinct_, "{}: weights of ids with SentRows::distinct", kName);
  auto const largest = std::ranges::find(tables_, ops::Pooling::max, &TableSpec::pooling);
  require(!bags.weights || largest == tables_.end(),
          "{}: weights, and the table '{}' of Pooling::max, which has none",
          kName,
          largest == tables_.end() ? "" : largest->name);
}

kernels::ShardBags shard_bags_of(std::int64_t tables, ops::TableBags<AnyRuntime> const& bags) {
  return {ops::detail::id_array(bags.ids.any()),
          bags.offsets ? ops::detail::id_array(bags.offsets->any()) : kernels::IdArray(),
          bags.ids.count(),
          tables,
          bags.batch,
          bags.batch_count ? bags.batch_count->data() : nullptr,
          bags.weights ? bags.weights->data() : nullptr};
}

kernels::IdReport ShardedTablesState::report_of_ids(
    Uses<AnyRuntime, AccessMode::write>& written) const {
  return ops::detail::id_report(of_rank_.c_str(), *device_, id_policy_, std::nullopt, written);
}

std::shared_ptr<ExchangedIds const> ShardedTablesState::exchange(
    Bags const& bags, bool is_ahead, std::source_location issued_at) const {
  require_bags(bags);
  AnyStreamScope const scope(is_ahead ? ahead_ : communicator_.group(), {}, issued_at);
  NameScope const names("sharded_tables");
  if (distinct_) {
    return std::make_shared<ExchangedIds>(
        ExchangedIds{.tables = shared_from_this(),
                     .samples = bags.batch,
                     .received = {},
                     .own = {},
                     .divisors = {},
                     .distinct = distinct_->exchange(*this, bags, issued_at)});
  }
  auto const most_bags = options_.most_samples;
  auto const slots = static_cast<std::int64_t>(layout_.slots.size());
  auto const messages = static_cast<std::int64_t>(layout_.messages.size());
  // Messages with weights are longer, so that ranks of which only some have weights are found to
  // differ.
  auto const stride = layout_.message_stride + (bags.weights ? 1 : 0);

  TensorOf<std::int64_t> const lengths(device_, {slots * most_bags});
  auto read = reads(arrays_.all());
  ops::detail::add_bags(bags, read);
  auto written = writes(lengths);
  kernels::SentBagsArgs args{.slots = slots_,
                             .slot_count = slots,
                             .messages = messages_,
                             .message_count = messages,
                             .most_bags = most_bags,
                             .bags = shard_bags_of(std::ssize(tables_), bags),
                             .report = report_of_ids(written),
                             .overflow = ops::detail::id_report(
                                 "ShardedTables: the most ids of a message, by TableSpec::hotness",
                                 *device_,
                                 ops::OutOfRange::trap,
                                 std::nullopt,
                                 written)};
  issue(
      "sent_lengths",
      read,
      written,
      [args, to = lengths.data()](auto stream) { kernels::sent_lengths(stream, args, to); },
      {},
      issued_at);
  auto const offsets = ops::detail::lengths_to_offsets(lengths.any(), {}, issued_at);
  TensorOf<std::int64_t> const sent(device_, {messages, stride});
  TensorOf<std::int64_t> const counts(device_, {messages});
  read.add(offsets);
  auto const sent_weights = room_for_weights(bags, messages);
  kernels::SentIds const to{offsets.data(),
                            sent.data(),
                            stride,
                            counts.data(),
                            sent_weights ? sent_weights->data() : nullptr,
                            layout_.most_ids};
  auto sent_written = writes(sent, counts);
  if (sent_weights) {
    sent_written.add(*sent_weights);
  }
  issue(
      "sent_ids",
      read,
      sent_written,
      [args, to](auto stream) { kernels::sent_ids(stream, args, to); },
      {},
      issued_at);
  TensorOf<std::int64_t> const received(device_, {ranks(), stride});
  TensorOf<std::int64_t> const received_counts(device_, {ranks()});
  comm::detail::all_to_all(communicator_,
                           sent.rows(0, ranks()).any(),
                           counts.rows(0, ranks()).any(),
                           received.any(),
                           received_counts.any(),
                           issued_at);
  auto const received_weights = room_for_weights(bags, ranks());
  if (received_weights) {
    comm::detail::all_to_all(
        communicator_, sent_weights->rows(0, ranks()).any(), received_weights->any(), issued_at);
  }
  auto ids =
      std::make_shared<ExchangedIds>(ExchangedIds{shared_from_this(), bags.batch, {}, {}, {}});
  if (!parts_.empty()) {
    ids->received = receive(received, received_weights, issued_at);
  }
  if (replicated_) {
    auto const bags_of_message = replicated_->tables() * most_bags;
    auto const message = sent.rows(ranks(), ranks() + 1).reshaped({stride});
    auto const capacity = layout_.messages.back().capacity;
    ids->own = Bags{message.rows(bags_of_message + 1, bags_of_message + 1 + capacity),
                    most_bags,
                    ops::detail::AnyIds(message.rows(0, bags_of_message + 1))};
    if (sent_weights) {
      ids->own->weights =
          sent_weights->rows(ranks(), ranks() + 1).reshaped({layout_.most_ids}).rows(0, capacity);
    }
  }
  ids->divisors = divisors_of(bags, issued_at);
  return ids;
}

std::optional<Floats> ShardedTablesState::room_for_weights(Bags const& bags,
                                                           std::int64_t messages) const {
  return bags.weights ? std::optional(Floats(device_, {messages, layout_.most_ids})) : std::nullopt;
}

ops::TableBags<AnyRuntime> ShardedTablesState::receive(TensorOf<std::int64_t> const& messages,
                                                       std::optional<Floats> const& weights,
                                                       std::source_location issued_at) const {
  auto const& message = layout_.messages[static_cast<std::size_t>(communicator_.rank())];
  kernels::ReceivedBagsArgs const args{.rows = rows_,
                                       .slots = message.slots,
                                       .ranks = ranks(),
                                       .most_bags = options_.most_samples,
                                       .messages = messages.data(),
                                       .stride = messages.shape()[1],
                                       .capacity = message.capacity,
                                       .weights = weights ? weights->data() : nullptr,
                                       .weight_stride = layout_.most_ids};
  TensorOf<std::int64_t> const lengths(device_, {args.bags()});
  issue(
      "received_lengths",
      reads(arrays_.all(), messages),
      writes(lengths),
      [args, to = lengths.data()](auto stream) { kernels::received_lengths(stream, args, to); },
      {},
      issued_at);
  auto const offsets = ops::detail::lengths_to_offsets(lengths.any(), {}, issued_at);
  // The bits of the gradient of a row may depend on the room for ids, and replicated tables must
  // move equally on all ranks.
  auto const room = replicated_ ? layout_.most_ids : message.capacity;
  TensorOf<std::int64_t> const ids(device_, {ranks() * room});
  Bags bags{ids, ranks() * options_.most_samples, ops::detail::AnyIds(offsets)};
  auto read = reads(arrays_.all(), messages, offsets);
  auto written = writes(ids);
  if (weights) {
    read.add(*weights);
    written.add(bags.weights.emplace(device_, ids.shape()));
  }
  issue(
      "received_ids",
      read,
      written,
      [args,
       from = offsets.data(),
       to = ids.data(),
       to_weights = bags.weights ? bags.weights->data() : nullptr](auto stream) {
        kernels::received_ids(stream, args, from, to, to_weights);
      },
      {},
      issued_at);
  return bags;
}

std::optional<Floats> ShardedTablesState::divisors_of(Bags const& bags,
                                                      std::source_location issued_at) const {
  auto const count = static_cast<std::int64_t>(layout_.divided_at_home.size());
  if (count == 0) {
    return std::nullopt;
  }
  Floats divisors(device_, {count, bags.batch});
  auto read = reads(arrays_.all());
  ops::detail::add_bags(bags, read);
  kernels::BagDivisorsArgs const args{.tables = divided_at_home_,
                                      .poolings = poolings_at_home_,
                                      .table_count = count,
                                      .bags = shard_bags_of(std::ssize(tables_), bags),
                                      .divisors = divisors.data()};
  issue(
      "bag_divisors",
      read,
      writes(divisors),
      [args](auto stream) { kernels::bag_divisors(stream, args); },
      {},
      issued_at);
  return divisors;
}

}  // namespace msstream::detail
