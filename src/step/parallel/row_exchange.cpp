// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/row_exchange.hpp"

#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding_gradient/merged_gradients.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace msstream::detail {
namespace {

using comm::detail::AnyCommunicator;

/// Stands for the capacity of a table whose gradient is not that of the ids ahead.
constexpr std::int64_t kOther = -2;

/// Runs what is issued meanwhile on a group, if there is one.
class ScopeOfGroup {
 public:
  ScopeOfGroup(std::shared_ptr<StreamGroup> const& group, std::source_location issued_at) {
    if (group != nullptr) {
      scope_.emplace(group, StreamScopeOptions{}, issued_at);
    }
  }

 private:
  std::optional<AnyStreamScope> scope_;
};

/// Puts the gradient of a table on the tape, in the place of all that it has.
void replace_rows(TapeState& state, AnyTensor const& weights, LookupGradient gradient) {
  auto const range = MemoryRange::of(weights);
  state.row_gradients.remove_overlaps(range);
  state.row_gradients.emplace(range, {weights.block(), {{weights.shape(), std::move(gradient)}}});
}

/// Gathers the rows of all ranks, as many of each: its own, which may be fewer or none, and then
/// zeros, times a factor.
void gather_rows(std::optional<Floats> const& own,
                 Floats const& of_all,
                 AnyCommunicator const& communicator,
                 float factor,
                 std::source_location issued_at) {
  auto const capacity = of_all.shape()[0] / communicator.size();
  auto const first = communicator.rank() * capacity;
  auto const sent = of_all.rows(first, first + capacity);
  auto const count = own ? std::min(own->shape()[0], capacity) : 0;
  if (count > 0) {
    auto const rows = own->rows(0, count);
    if (factor == 1) {
      copy_on_device(sent.rows(0, count).any(), rows.any(), issued_at);
    } else {
      ops::detail::scale_into(rows, factor, sent.rows(0, count), issued_at);
    }
  }
  if (count < capacity) {
    fill_any(sent.rows(count, capacity).any(), 0, issued_at);
  }
  comm::detail::all_gather(communicator, sent.any(), of_all.any(), issued_at);
}

/// A lookup in many tables, and the gradient of its output on this rank; null if it got none.
struct ManyExchanged {
  TablesAhead ahead;
  std::optional<OutputGradient> output;
  bool is_gathered = false;

  /// Returns the gradients of the rows that this rank has looked up.
  [[nodiscard]] std::vector<LookupGradient> of_this_rank(std::source_location issued_at) const {
    ScopeOfGroup const scope(output->group, issued_at);
    return parts_of(
        std::make_shared<ops::detail::TablesGradient const>(ops::detail::embedding_tables_gradient(
            ahead.tables, ahead.own, output->rows.any(), {}, issued_at)),
        ahead.own);
  }
  /// Returns those of all ranks. They are summed when they are needed, unless an optimizer sums and
  /// applies them at once.
  [[nodiscard]] std::vector<LookupGradient> of_all_ranks(comm::detail::RowBuffers& buffers,
                                                         std::source_location issued_at) const {
    auto const all = std::make_shared<ops::detail::TablesGradient const>(
        ahead.grouped, output->group, issued_at);
    // The next step may come before the update, on another tape.
    buffers.read_before_next(ahead.numbers.front(), [weak = std::weak_ptr(all)] {
      if (auto const pending = weak.lock()) {
        static_cast<void>(pending->rows());
      }
    });
    return parts_of(all, ahead.bags);
  }
  void gather(AnyCommunicator const& communicator, float factor, std::source_location issued_at) {
    ScopeOfGroup const scope(output->group, issued_at);
    Floats const of_all(ahead.grouped.output_gradient);
    gather_rows(output->rows, of_all, communicator, factor, issued_at);
    is_gathered = true;
  }

 private:
  [[nodiscard]] std::vector<LookupGradient> parts_of(
      std::shared_ptr<ops::detail::TablesGradient const> const& all,
      ops::TableBags<AnyRuntime> const& bags) const {
    std::vector<LookupGradient> gradients;
    for (std::int64_t t = 0; t < ahead.tables.tables(); ++t) {
      gradients.push_back(
          {ops::detail::TablePart{
               all, t, ahead.tables.first_row(t), ops::detail::most_rows_of(ahead.tables, bags, t)},
           output->group});
    }
    return gradients;
  }
};

/// The gradients of one table, on this rank and then on all.
struct Exchanged {
  NamedTable const* table;
  std::vector<LookupGradient const*> own = {};     ///< of each part; null if it has none
  std::optional<IdsAhead> ahead = {};              ///< if its ids are those of the gradients
  ManyExchanged* many = nullptr;                   ///< if its gradient is that of this lookup
  std::optional<OutputGradient> output = {};       ///< with SentGradient::outputs
  std::optional<LookupGradient> of_output = {};    ///< that of this rank's rows, if they are sent
  std::optional<TensorOf<std::int64_t>> ids = {};  ///< of all ranks
  std::optional<Floats> values = {};

  [[nodiscard]] std::int64_t capacity() const {
    std::int64_t most = table->weights.immutable() ? kFrozenTable : 0;
    for (auto const* part : own) {
      most = part == nullptr ? most : std::max(most, ops::detail::view_of(part->rows).capacity);
    }
    return most;
  }
  /// The group of the first lookup; null if there is none.
  [[nodiscard]] std::shared_ptr<StreamGroup> group() const {
    if (output) {
      return output->group;
    }
    auto const first = std::ranges::find_if(own, [](auto const* part) { return part != nullptr; });
    return first == own.end() ? nullptr : (*first)->group;
  }
  /// Returns whether this rank's gradient is that of the ids ahead, if there are any.
  [[nodiscard]] bool has_ids_ahead() const {
    if (many != nullptr) {
      return own.front() == nullptr && many->output.has_value();
    }
    if (!ahead) {
      return true;
    }
    if (ahead->sent == SentGradient::outputs) {
      return own.front() == nullptr && output.has_value() == ahead->has_lookup();
    }
    if (own.front() == nullptr || !ahead->has_lookup()) {
      return own.front() == nullptr && !ahead->has_lookup();
    }
    auto const* const rows = std::get_if<ops::RowGradients<AnyRuntime>>(&own.front()->rows);
    return rows != nullptr && rows->ids.data() == ahead->own_rows->ids.data();
  }
  /// Leaves the ids ahead aside, and computes the gradient of this rank's rows from that of the
  /// output, if there is one.
  void drop_ahead(std::source_location issued_at) {
    if (output) {
      ScopeOfGroup const scope(output->group, issued_at);
      auto const& shape = table->weights.shape();
      auto const& bags = *ahead->own_bags;
      auto const pooling = ahead->pooling;
      ops::detail::TableGradient rows = ops::detail::embedding_gradient(
          bags,
          ops::detail::deduplicate(bags, shape[0], pooling, issued_at),
          shape[0],
          pooling,
          output->rows.any(),
          {},
          issued_at);
      add_own({std::move(rows), output->group}, issued_at);
      output.reset();
    }
    ahead.reset();
  }
  /// Adds a gradient of this rank to that which it has.
  void add_own(LookupGradient gradient, std::source_location issued_at) {
    if (own.front() != nullptr) {
      gradient.rows = ops::detail::merged_gradients(
          {own.front()->rows, gradient.rows}, table->weights.shape(), {}, issued_at);
    }
    of_output = std::move(gradient);
    own.front() = &*of_output;
  }
  /// Gathers the rows whose ids are ahead, those of outputs times `factor`.
  void gather_values(AnyCommunicator const& communicator,
                     float factor,
                     std::source_location issued_at) {
    ScopeOfGroup const scope(group(), issued_at);
    values = ahead->values
                 ? *ahead->values
                 : Floats(table->weights.device(),
                          {communicator.size() * ahead->capacity, table->weights.shape()[1]});
    gather_rows(own_values(),
                *values,
                communicator,
                ahead->sent == SentGradient::outputs ? factor : 1,
                issued_at);
  }
  void gather(std::int64_t capacity,
              AnyCommunicator const& communicator,
              std::source_location issued_at) {
    ScopeOfGroup const scope(group(), issued_at);
    auto const& device = table->weights.device();
    auto const width = table->weights.shape()[1];
    auto const count = static_cast<std::int64_t>(own.size()) * capacity;
    TensorOf<std::int64_t> const own_ids(device, {count});
    Floats const own_rows(device, {count, width});
    std::int64_t begin = 0;
    for (auto const* part : own) {
      auto const part_ids = own_ids.rows(begin, begin + capacity);
      auto const part_values = own_rows.rows(begin, begin + capacity);
      begin += capacity;
      if (part != nullptr) {
        ops::detail::copy_rows(part->rows, part_ids, part_values, issued_at);
      } else {
        fill_any(part_ids.any(), 0xFF, issued_at);  // -1
        fill_any(part_values.any(), 0, issued_at);
      }
    }
    if (communicator.size() == 1) {
      ids = own_ids;
      values = own_rows;
      return;
    }
    ids.emplace(device, Shape{communicator.size() * count});
    values.emplace(device, Shape{communicator.size() * count, width});
    comm::detail::all_gather(communicator, own_ids.any(), ids->any(), issued_at);
    comm::detail::all_gather(communicator, own_rows.any(), values->any(), issued_at);
  }
  void put_on(TapeState& state, float factor, std::source_location issued_at) const {
    ScopeOfGroup const scope(group(), issued_at);
    auto const& weights = table->weights;
    auto const count = weights.shape()[0];
    auto rows =
        ahead
            ? ops::detail::embedding_gradient(
                  ahead->bags, ahead->grouped, count, ahead->pooling, values->any(), {}, issued_at)
            : ops::detail::sum_of_rows(*ids, *values, count, issued_at);
    bool const is_scaled = ahead && ahead->sent == SentGradient::outputs;
    if (factor != 1 && !is_scaled) {
      rows.values = ops::detail::scale(rows.values, factor, issued_at);
    }
    replace_rows(state, weights, {std::move(rows), group()});
  }

 private:
  /// Returns what this rank sends. Rows behind those that have a gradient may be any.
  [[nodiscard]] std::optional<Floats> own_values() const {
    if (output) {
      return output->rows;
    }
    return own.front() == nullptr
               ? std::nullopt
               : std::optional(std::get<ops::RowGradients<AnyRuntime>>(own.front()->rows).values);
  }
};

/// Leaves aside the ids ahead of a lookup in many tables, and computes the gradients of this rank's
/// rows from that of the output, if there is one.
void drop_many(std::vector<Exchanged>& all, ManyExchanged& many, std::source_location issued_at) {
  std::vector<LookupGradient> gradients;
  if (many.output) {
    gradients = many.of_this_rank(issued_at);
  }
  for (std::size_t t = 0; t < many.ahead.numbers.size(); ++t) {
    auto& table = all[many.ahead.numbers[t]];
    table.many = nullptr;
    if (many.output) {
      ScopeOfGroup const scope(many.output->group, issued_at);
      table.add_own(std::move(gradients[t]), issued_at);
    }
  }
  many.output.reset();
}

/// Returns the largest capacity of each table on any rank. Drops ids ahead of tables of which a
/// rank has another gradient than that of its ids.
[[nodiscard]] std::vector<std::int64_t> largest_capacities(std::vector<NamedTable> const& tables,
                                                           std::vector<Exchanged>& all,
                                                           AnyCommunicator const& communicator,
                                                           std::source_location issued_at) {
  std::vector<std::int64_t> largest;
  bool are_final = false;
  while (!are_final) {
    std::vector<std::int64_t> own;
    for (auto const& table : all) {
      own.push_back(table.has_ids_ahead() ? table.capacity() : kOther);
    }
    std::vector<bool> is_other(tables.size());
    largest.assign(tables.size(), 0);
    for (auto const& theirs : rows_of_ranks(tables, own, communicator)) {
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        is_other[i] = is_other[i] || theirs[i] == kOther;
        largest[i] = std::max(largest[i], theirs[i]);
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (is_other[i] && all[i].many != nullptr) {
        drop_many(all, *all[i].many, issued_at);
      } else if (is_other[i]) {
        all[i].drop_ahead(issued_at);
      }
    }
    are_final = std::ranges::count(is_other, true) == 0;
  }
  return largest;
}

}  // namespace

bool GradientsAhead::sends_outputs() const {
  return !lookups.many.empty() || std::ranges::any_of(lookups.ids, [](auto const& table) {
    return table && table->sent == SentGradient::outputs;
  });
}

void exchange_rows(TapeState& state,
                   std::vector<NamedTable> const& tables,
                   std::vector<RowsOfPart> const& parts,
                   GradientsAhead ahead,
                   AnyCommunicator const& communicator,
                   float factor,
                   comm::detail::RowBuffers& buffers,
                   std::source_location issued_at) {
  if (tables.empty() || (communicator.size() == 1 && parts.size() == 1 && factor == 1)) {
    return;
  }
  NameScope const names("data_parallel");
  std::vector<Exchanged> all;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    auto& exchanged = all.emplace_back(Exchanged{&tables[i]});
    for (auto const& part : parts) {
      exchanged.own.push_back(part[i] ? &*part[i] : nullptr);
    }
    if (!ahead.lookups.ids.empty()) {
      exchanged.ahead = std::move(ahead.lookups.ids[i]);
      exchanged.output = std::move(ahead.outputs[i]);
    }
  }
  std::vector<ManyExchanged> of_many;
  of_many.reserve(ahead.lookups.many.size());  // tables point to them
  for (std::size_t i = 0; i < ahead.lookups.many.size(); ++i) {
    auto& many = of_many.emplace_back(
        ManyExchanged{std::move(ahead.lookups.many[i]), std::move(ahead.outputs_of_many[i])});
    for (auto const number : many.ahead.numbers) {
      all[number].many = &many;
    }
  }
  auto const capacities = largest_capacities(tables, all, communicator, issued_at);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto* const many = all[i].many;
    if (many != nullptr) {
      if (!many->is_gathered) {
        many->gather(communicator, factor, issued_at);
      }
    } else if (all[i].ahead) {
      all[i].gather_values(communicator, factor, issued_at);
    } else if (capacities[i] > 0) {
      all[i].gather(std::min(capacities[i], tables[i].weights.shape()[0]), communicator, issued_at);
    }
  }
  for (auto const& many : of_many) {
    if (many.is_gathered) {
      auto const gradients = many.of_all_ranks(buffers, issued_at);
      for (std::size_t t = 0; t < gradients.size(); ++t) {
        replace_rows(state, tables[many.ahead.numbers[t]].weights, gradients[t]);
      }
    }
  }
  for (auto const& exchanged : all) {
    if (exchanged.values) {
      exchanged.put_on(state, factor, issued_at);
    }
  }
}

}  // namespace msstream::detail
