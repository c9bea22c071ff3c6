// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding/table_gradient.hpp"
#include "step/engine_queries.hpp"
#include "step/parallel/or_give_up.hpp"
#include "step/parallel/sharded_tables_state.hpp"
#include "step/tape_state.hpp"

#include <msstream/ops/matrix.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

namespace msstream::detail {

namespace kernels = ops::kernels;

Floats ShardedTablesState::lookup(AnyTape* tape,
                                  std::shared_ptr<ExchangedIds const> const& ids,
                                  std::source_location issued_at) const {
  send_ahead();
  NameScope const names("sharded_tables");
  if (ids->beside) {
    auto const all = *backwards_ - ids->beside->of_tables;
    auto const known = *ids->beside->backwards - ids->beside->of_bags;
    if (all != known) {
      throw std::logic_error(
          fmt::format("ShardedTables: a lookup of rows that were prefetched beside other bags, "
                      "after {} backwards, of which {} were of those bags; expected no others",
                      all,
                      known));
    }
  }
  std::optional<TensorOf<std::int32_t>> argmax;
  if (tape != nullptr && distinct_) {
    argmax = distinct_->argmax_for(*ids->distinct);
  } else if (tape != nullptr && ids->pooled_ahead && !ids->pooled_ahead->split) {
    argmax = ids->pooled_ahead->argmax;
  } else if (tape != nullptr) {
    argmax = argmax_for(*ids);
  }
  auto const pooled = distinct_
                          ? distinct_->lookup(*this, *ids->distinct, ids->ahead, argmax, issued_at)
                          : joined_lookup(*ids, argmax, issued_at);
  if (tape == nullptr) {
    return pooled;
  }
  bool const has_gradient =
      tape->is_recording() && !distinct_ && std::ranges::any_of(parts_, [&](auto const& part) {
        return tape->wants_gradient(part.weights);
      });
  auto const ahead =
      has_gradient
          ? or_give_up(communicator_, [&] { return grouped_ahead(*ids, argmax, issued_at); })
          : std::nullopt;
  auto const is_played_back = std::make_shared<bool>(false);
  if (!distinct_) {
    waiting_->played_back.push_back(is_played_back);
  }
  auto play_back = [self = shared_from_this(), ids, argmax, ahead, is_played_back, issued_at](
                       AnyTape& playing, AnyTensor const& pooled_gradient) {
    Floats const gradient(OfKnownType(), pooled_gradient);
    *is_played_back = true;
    ++*ids->backwards;
    ++*self->backwards_;
    self->not_updated_->note(ids->backwards, playing.state().while_kept());
    if (self->distinct_) {
      self->distinct_->send_back(*self, playing, *ids->distinct, gradient, argmax, issued_at);
    } else {
      self->send_back(playing, *ids, gradient, argmax, ahead, issued_at);
    }
  };
  // A tape that watches its inputs takes an operation without any for one that reads all.
  tape->note_input(pooled.any());
  for (auto const& part : parts_) {
    tape->note_input(part.weights);
  }
  if (all_) {
    tape->record_lookup(
        "sharded_lookup", *all_, nullptr, pooled.any(), std::move(play_back), issued_at);
  } else {
    tape->record_any("sharded_lookup", pooled.any(), std::move(play_back), issued_at);
  }
  return pooled;
}

std::optional<TensorOf<std::int32_t>> ShardedTablesState::argmax_for(
    ExchangedIds const& ids) const {
  if (!divided_ || !ops::detail::needs_argmax(*divided_, *ids.received)) {
    return std::nullopt;
  }
  return TensorOf<std::int32_t>(device_, divided_->argmax_shape(ids.received->batch));
}

Floats ShardedTablesState::joined_lookup(ExchangedIds const& ids,
                                         std::optional<TensorOf<std::int32_t>> const& argmax,
                                         std::source_location issued_at) const {
  std::optional<Floats> received;
  std::optional<Floats> late;
  if (layout_.widest > 0) {
    auto const& ahead = ids.pooled_ahead;
    received = ahead ? ahead->rows : received_rows(ids, argmax, issued_at);
    if (ahead && ahead->split) {
      late = late_rows(ids, argmax, issued_at);
    }
  }
  std::optional<Floats> of_replicated;
  if (replicated_) {
    of_replicated.emplace(
        OfKnownType(),
        ops::detail::embedding_lookup(DType::float32, *replicated_, *ids.own, {}, issued_at));
  }
  return join(ids, received, late, of_replicated, issued_at);
}

Floats ShardedTablesState::received_rows(ExchangedIds const& ids,
                                         std::optional<TensorOf<std::int32_t>> const& argmax,
                                         std::source_location issued_at) const {
  auto const sent = pooled_for_all(ids, argmax, issued_at);
  Floats received(device_, sent.shape());
  comm::detail::all_to_all(communicator_, sent.any(), received.any(), issued_at);
  return received;
}

ops::TableBags<AnyRuntime> ShardedTablesState::divided_bags(ExchangedIds const& ids) const {
  return bags_of(*ids.received, 0, divided_->tables());
}

Floats ShardedTablesState::pooled(Bags const& bags,
                                  std::optional<TensorOf<std::int32_t>> const& argmax,
                                  std::source_location issued_at) const {
  return Floats(OfKnownType(),
                ops::detail::embedding_lookup(
                    DType::float32, *divided_, bags, {.argmax = argmax}, issued_at));
}

Floats ShardedTablesState::pooled_for_all(ExchangedIds const& ids,
                                          std::optional<TensorOf<std::int32_t>> const& argmax,
                                          std::source_location issued_at) const {
  auto const most_bags = options_.most_samples;
  auto const width = own().divided_width;
  auto const rest = most_bags * (layout_.widest - width);
  Floats const padding(device_, {ranks(), rest});
  if (rest > 0) {
    fill_any(padding.any(), 0, issued_at);
  }
  if (!divided_) {
    return padding;
  }
  auto const by_rank =
      pooled(divided_bags(ids), argmax, issued_at).reshaped({ranks(), most_bags * width});
  return rest == 0 ? by_rank : ops::detail::concat({by_rank, padding}, issued_at);
}

Floats ShardedTablesState::join(ExchangedIds const& ids,
                                std::optional<Floats> const& received,
                                std::optional<Floats> const& late,
                                std::optional<Floats> const& of_replicated,
                                std::source_location issued_at) const {
  Floats output(device_, {ids.samples, layout_.width});
  auto read = reads(arrays_.all());
  for (auto const* const tensor : {&received, &late, &of_replicated, &ids.divisors}) {
    if (*tensor) {
      read.add(**tensor);
    }
  }
  auto const row_stride = options_.most_samples * layout_.widest;
  kernels::JoinedColumnsArgs const args{.messages = received ? received->data() : nullptr,
                                        .widths = widths_,
                                        .stride = late ? layout_.early_stride : row_stride,
                                        .own = of_replicated ? of_replicated->data() : nullptr,
                                        .own_width = layout_.replicated_width,
                                        .ranks = static_cast<std::int32_t>(ranks()),
                                        .sources = sources_,
                                        .first_sources = first_sources_,
                                        .divisor_tables = divisor_tables_,
                                        .divisors = ids.divisors ? ids.divisors->data() : nullptr,
                                        .rows = ids.samples,
                                        .columns = layout_.width,
                                        .output = output.data(),
                                        .late = late ? late->data() : nullptr,
                                        .late_stride = row_stride,
                                        .source_slots = source_slots_,
                                        .most_bags = options_.most_samples};
  issue(
      "joined_columns",
      read,
      writes(output),
      [args](auto stream) { kernels::joined_columns(stream, args); },
      {},
      issued_at);
  return output;
}

std::optional<ops::detail::GroupedTables> ShardedTablesState::grouped_ahead(
    ExchangedIds const& ids,
    std::optional<TensorOf<std::int32_t>> const& argmax,
    std::source_location issued_at) const {
  auto const width = own().width;
  if (!all_ || (divided_ && replicated_) || width != layout_.widest_gradient) {
    return std::nullopt;
  }
  Floats const received(device_, {ranks() * options_.most_samples, width});
  AnyStreamScope const scope(ahead_, {}, issued_at);
  NameScope const names("sharded_tables");
  return ops::detail::group_tables(*all_, *ids.received, received.any(), argmax, 0, issued_at);
}

void ShardedTablesState::send_back(AnyTape& tape,
                                   ExchangedIds const& ids,
                                   Floats const& gradient,
                                   std::optional<TensorOf<std::int32_t>> const& argmax,
                                   std::optional<ops::detail::GroupedTables> const& ahead,
                                   std::source_location issued_at) const {
  auto const most_bags = options_.most_samples;
  auto const stride = most_bags * layout_.widest_gradient;
  Floats const sent(device_, {ranks(), stride});
  Floats const received = ahead ? Floats(ahead->output_gradient).reshaped({ranks(), stride})
                                : Floats(device_, {ranks(), stride});
  auto read = reads(arrays_.all(), gradient);
  if (ids.divisors) {
    read.add(*ids.divisors);
  }
  kernels::SpreadColumnsArgs const args{.gradient = gradient.data(),
                                        .rows = ids.samples,
                                        .columns = layout_.width,
                                        .ranks = ranks(),
                                        .most_bags = most_bags,
                                        .widths = gradient_widths_,
                                        .first_columns = first_gradient_sources_,
                                        .sources = gradient_sources_,
                                        .divisor_tables = divisor_tables_,
                                        .divisors = ids.divisors ? ids.divisors->data() : nullptr,
                                        .scale = scale(),
                                        .messages = sent.data(),
                                        .stride = stride};
  issue(
      "spread_columns",
      read,
      writes(sent),
      [args](auto stream) { kernels::spread_columns(stream, args); },
      {},
      issued_at);
  comm::detail::all_to_all(communicator_, sent.any(), received.any(), issued_at);
  if (!awaits_backward()) {
    send_ahead();
  }
  if (ahead) {
    add_rows(tape, 0, *ids.received, *ahead, issued_at);
    return;
  }
  if (!all_) {
    return;
  }
  auto const grouped = [&](Tables const& tables,
                           Bags const& bags,
                           Floats const& outputs,
                           std::optional<TensorOf<std::int32_t>> const& largest) {
    return ops::detail::group_tables(tables, bags, outputs.any(), largest, 0, issued_at);
  };
  auto const width = own().width;
  auto const rest = stride - most_bags * width;
  auto of_blocks = received;
  if (rest > 0) {
    std::array<std::int64_t, 2> const widths{most_bags * width, rest};
    of_blocks = *ops::detail::split(received, widths, {true, false}, issued_at)[0];
  }
  of_blocks = of_blocks.reshaped({ranks() * most_bags, width});
  if (!divided_ || !replicated_) {
    add_rows(tape, 0, *ids.received, grouped(*all_, *ids.received, of_blocks, argmax), issued_at);
    return;
  }
  std::array<std::int64_t, 2> const widths{own().divided_width, layout_.replicated_width};
  auto const gradients = ops::detail::split(of_blocks, widths, {true, true}, issued_at);
  auto const divided = divided_->tables();
  auto const bags = bags_of(*ids.received, 0, divided);
  add_rows(tape, 0, bags, grouped(*divided_, bags, *gradients[0], argmax), issued_at);
  // By themselves, because the bits of a sum may depend on the other tables of an operation, and
  // all ranks must move a replicated table equally.
  auto const others = bags_of(*ids.received, divided, replicated_->tables());
  add_rows(tape, divided, others, grouped(*replicated_, others, *gradients[1], {}), issued_at);
}

ops::TableBags<AnyRuntime> ShardedTablesState::bags_of(Bags const& bags,
                                                       std::int64_t first,
                                                       std::int64_t count) {
  TensorOf<std::int64_t> const offsets(OfKnownType(), bags.offsets->any());
  return {.ids = bags.ids,
          .batch = bags.batch,
          .offsets = ops::detail::AnyIds(
              offsets.rows(first * bags.batch, (first + count) * bags.batch + 1)),
          .weights = bags.weights};
}

void ShardedTablesState::add_rows(AnyTape& tape,
                                  std::int64_t first_part,
                                  Bags const& bags,
                                  ops::detail::GroupedTables grouped,
                                  std::source_location issued_at) const {
  auto const tables = grouped.tables;
  // Summed when the sums are needed, unless an optimizer sums and applies them at once.
  auto const rows = std::make_shared<ops::detail::TablesGradient const>(
      std::move(grouped), current_scope(*device_).group(), issued_at);
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    tape.add_table_part(parts_[static_cast<std::size_t>(first_part + t)].weights,
                        {rows, t, tables.first_row(t), ops::detail::most_rows_of(tables, bags, t)},
                        issued_at);
  }
}

}  // namespace msstream::detail
