// SPDX-License-Identifier: Apache-2.0
#include "embedding/pooled_ahead.hpp"

#include "ops/embedding/embedding_tables.hpp"
#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/trace/name_scope.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace msstream::detail {

namespace kernels = ops::kernels;

std::shared_ptr<ExchangedIds const> ShardedTablesState::prefetch_rows(
    ExchangedIds const& ids, ExchangedIds const* now, std::source_location issued_at) const {
  if (now != nullptr && now->backwards != ids.backwards &&
      not_updated_->has_others_than(now->backwards)) {
    throw std::logic_error(
        "ShardedTables: rows prefetched beside bags, when others have been played back that no "
        "update has applied, as with micro-batches and with several lookups in a step; expected "
        "one lookup in each update");
  }
  AnyStreamScope const scope(ahead_, {}, issued_at);
  NameScope const names("sharded_tables");
  auto result = std::make_shared<ExchangedIds>(ids);
  if (distinct_) {
    result->ahead = distinct_->prefetch(
        *this, *ids.distinct, now == nullptr ? nullptr : &*now->distinct, issued_at);
  } else {
    result->pooled_ahead = pooled_ahead(ids, now, issued_at);
  }
  result->beside.reset();
  // All rows of bags beside themselves come with the lookup.
  if (now != nullptr && now->backwards != ids.backwards) {
    result->beside = {now->backwards, *now->backwards, *backwards_};
  }
  return result;
}

PooledAhead ShardedTablesState::pooled_ahead(ExchangedIds const& ids,
                                             ExchangedIds const* now,
                                             std::source_location issued_at) const {
  if (layout_.widest == 0) {
    PooledAhead none{Floats(device_, {0})};
    if (now != nullptr) {
      none.split = {TensorOf<std::int64_t>(device_, {0}), TensorOf<std::int64_t>(device_, {0})};
    }
    return none;
  }
  auto const argmax = argmax_for(ids);
  if (now == nullptr) {
    auto const sent = pooled_for_all(ids, argmax, issued_at);
    Floats const received(device_, sent.shape());
    auto later = send_or_wait([this, sent, received, issued_at] {
      comm::detail::all_to_all(communicator_, sent.any(), received.any(), issued_at);
    });
    return {received, argmax, std::nullopt, std::move(later)};
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  // Places have 32 bits, and sums of SplitCounts 64.
  require(layout_.early_stride <= kMost / ranks(),
          "ShardedTables: prefetched rows in messages of {} floats to {} ranks, with most_samples "
          "{}; expected less than 2^31 together",
          layout_.early_stride,
          ranks(),
          options_.most_samples);
  if (!divided_) {
    TensorOf<std::int64_t> const nothing(device_, {0});
    auto const early = exchanged_bags(nullptr, nothing, false, argmax, issued_at);
    return {early.rows, argmax, PooledAhead::Split{nothing, nothing}, send_or_wait(early.send)};
  }
  auto early = divided_bags(ids);
  auto const split = split_bags(early, divided_bags(*now), issued_at);
  early.ids = split.early_ids;
  auto const sent = exchanged_bags(&early, split.before, false, argmax, issued_at);
  return {
      sent.rows, argmax, PooledAhead::Split{split.before, split.late_ids}, send_or_wait(sent.send)};
}

Floats ShardedTablesState::late_rows(ExchangedIds const& ids,
                                     std::optional<TensorOf<std::int32_t>> const& argmax,
                                     std::source_location issued_at) const {
  auto const& ahead = *ids.pooled_ahead;
  if (!divided_) {
    auto const none = exchanged_bags(nullptr, ahead.split->before, true, argmax, issued_at);
    none.send();
    return none.rows;
  }
  auto late = divided_bags(ids);
  late.ids = ahead.split->late_ids;
  auto const sent = exchanged_bags(&late, ahead.split->before, true, argmax, issued_at);
  sent.send();
  if (argmax) {
    kernels::JoinedArgmaxArgs const args{ahead.argmax->data(), argmax->data(), argmax->count()};
    issue(
        "joined_argmax",
        reads(*ahead.argmax),
        writes(*argmax),
        [args](auto stream) { kernels::joined_argmax(stream, args); },
        {},
        issued_at);
  }
  return sent.rows;
}

ShardedTablesState::SplitBags ShardedTablesState::split_bags(Bags const& bags,
                                                             Bags const& touching,
                                                             std::source_location issued_at) const {
  auto const& in_use = divided_->in_use();
  auto const blocks_of = [&](Bags const& of) {
    return kernels::BagsOfBlocks{
        .blocks = in_use.descriptors(),
        .first_rows = in_use.first_rows(),
        .slots = divided_->tables(),
        .ranks = ranks(),
        .most_bags = options_.most_samples,
        .ids = TensorOf<std::int64_t>(OfKnownType(), of.ids.any()).data(),
        .offsets = TensorOf<std::int64_t>(OfKnownType(), of.offsets->any()).data(),
        .capacity = of.ids.count()};
  };
  auto const rows = in_use.plan->first_rows.back();
  TensorOf<std::int32_t> const marks(device_,
                                     {(rows + kernels::kRowsOfMark - 1) / kernels::kRowsOfMark});
  fill_any(marks.any(), 0, issued_at);
  auto* const marks_of_rows = reinterpret_cast<std::uint32_t*>(marks.data());
  auto read = in_use.plan_reads();
  ops::detail::add_bags(touching, read);
  issue(
      "marked_rows",
      read,
      writes(marks),
      [args = kernels::MarkedRowsArgs{blocks_of(touching), marks_of_rows}](auto stream) {
        kernels::marked_rows(stream, args);
      },
      {},
      issued_at);
  auto const blocks = blocks_of(bags);
  TensorOf<std::int64_t> const early_ids(device_, bags.ids.any().shape());
  TensorOf<std::int64_t> const late_ids(device_, bags.ids.any().shape());
  TensorOf<std::int64_t> const counts(device_, {blocks.bags()});
  auto read_of_split = in_use.plan_reads();
  ops::detail::add_bags(bags, read_of_split);
  read_of_split.add(marks);
  issue(
      "split_bags",
      read_of_split,
      writes(early_ids, late_ids, counts),
      [args =
           kernels::SplitBagsArgs{
               blocks, marks_of_rows, early_ids.data(), late_ids.data(), counts.data()}](
          auto stream) { kernels::split_bags(stream, args); },
      {},
      issued_at);
  return {early_ids, late_ids, ops::detail::lengths_to_offsets(counts.any(), {}, issued_at)};
}

ShardedTablesState::ExchangedBags ShardedTablesState::exchanged_bags(
    Bags const* bags,
    TensorOf<std::int64_t> const& before,
    bool is_late,
    std::optional<TensorOf<std::int32_t>> const& argmax,
    std::source_location issued_at) const {
  auto const most_bags = options_.most_samples;
  auto const stride = is_late ? most_bags * layout_.widest : layout_.early_stride;
  Floats const sent(device_, {ranks(), stride});
  TensorOf<std::int64_t> const counts(device_, {ranks()});
  if (bags == nullptr) {
    fill_any(sent.any(), 0, issued_at);
    fill_any(counts.any(), 0, issued_at);
  } else {
    auto const rows = pooled(*bags, argmax, issued_at);
    auto const& in_use = divided_->in_use();
    kernels::PackedBagsArgs const args{.blocks = in_use.descriptors(),
                                       .slots = divided_->tables(),
                                       .ranks = ranks(),
                                       .most_bags = most_bags,
                                       .width = divided_->width(),
                                       .pooled = rows.data(),
                                       .before = before.data(),
                                       .is_late = is_late,
                                       .most_elements = ranks() * most_bags * in_use.plan->widest,
                                       .messages = sent.data(),
                                       .stride = stride,
                                       .counts = counts.data()};
    auto read = in_use.plan_reads();
    read.add(rows);
    read.add(before);
    issue(
        is_late ? "packed_late_bags" : "packed_early_bags",
        read,
        writes(sent, counts),
        [args](auto stream) { kernels::packed_bags(stream, args); },
        {},
        issued_at);
  }
  Floats const received(device_, {ranks(), stride});
  TensorOf<std::int64_t> const received_counts(device_, {ranks()});
  return {received, [=, this] {
            comm::detail::all_to_all(communicator_,
                                     sent.any(),
                                     counts.any(),
                                     received.any(),
                                     received_counts.any(),
                                     issued_at);
          }};
}

bool ShardedTablesState::awaits_backward() const {
  std::erase_if(waiting_->played_back, [](auto const& lookup) {
    auto const is_played_back = lookup.lock();
    return is_played_back == nullptr || *is_played_back;
  });
  return !waiting_->played_back.empty();
}

// In the order of their calls, the collectives of a communicator wait for each other. Rows that are
// needed in the next step must not keep back the gradients of this one.
std::shared_ptr<LaterSend> ShardedTablesState::send_or_wait(std::function<void()> send) const {
  if (!awaits_backward()) {
    send();
    return nullptr;
  }
  auto later = std::make_shared<LaterSend>(std::move(send));
  waiting_->sends.push_back(later);
  return later;
}

void ShardedTablesState::send_ahead() const {
  NameScope const names("sharded_tables");
  for (auto const& waiting : std::exchange(waiting_->sends, {})) {
    if (auto const send = waiting.lock()) {
      send->now();
    }
  }
}

}  // namespace msstream::detail
