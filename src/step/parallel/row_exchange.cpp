// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/row_exchange.hpp"

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

/// The gradients of one table, on this rank and then on all.
struct Exchanged {
  NamedTable const* table;
  std::vector<LookupGradient const*> own;          ///< of each part; null if it has none
  std::optional<IdsAhead> ahead = {};              ///< if its ids are those of the gradients
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
    auto const first = std::ranges::find_if(own, [](auto const* part) { return part != nullptr; });
    return first == own.end() ? nullptr : (*first)->group;
  }
  /// Returns whether this rank's gradient is that of the ids ahead, if there are any.
  [[nodiscard]] bool has_ids_ahead() const {
    if (!ahead) {
      return true;
    }
    if (own.front() == nullptr || !ahead->own) {
      return own.front() == nullptr && !ahead->own;
    }
    auto const* const rows = std::get_if<ops::RowGradients<AnyRuntime>>(&own.front()->rows);
    return rows != nullptr && rows->ids.data() == ahead->own->ids.data();
  }
  /// Gathers the values of the rows whose ids are ahead.
  void gather_values(AnyCommunicator const& communicator, std::source_location issued_at) {
    ScopeOfGroup const scope(group(), issued_at);
    auto const width = table->weights.shape()[1];
    values.emplace(table->weights.device(), Shape{communicator.size() * ahead->capacity, width});
    comm::detail::all_gather(
        communicator, own_values(width, issued_at).any(), values->any(), issued_at);
  }
  void gather(std::int64_t capacity,
              AnyCommunicator const& communicator,
              std::source_location issued_at) {
    ScopeOfGroup const scope(group(), issued_at);
    auto const& device = table->weights.device();
    auto const width = table->weights.shape()[1];
    auto const count = static_cast<std::int64_t>(own.size()) * capacity;
    TensorOf<std::int64_t> const own_ids(device, {count});
    Floats const own_values(device, {count, width});
    std::int64_t begin = 0;
    for (auto const* part : own) {
      auto const part_ids = own_ids.rows(begin, begin + capacity);
      auto const part_values = own_values.rows(begin, begin + capacity);
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
      values = own_values;
      return;
    }
    ids.emplace(device, Shape{communicator.size() * count});
    values.emplace(device, Shape{communicator.size() * count, width});
    comm::detail::all_gather(communicator, own_ids.any(), ids->any(), issued_at);
    comm::detail::all_gather(communicator, own_values.any(), values->any(), issued_at);
  }
  void put_on(TapeState& state, float factor, std::source_location issued_at) const {
    ScopeOfGroup const scope(group(), issued_at);
    auto const& weights = table->weights;
    auto rows = ahead ? ops::detail::sum_of_rows(
                            ahead->ids, ahead->of_ranks, *values, weights.shape()[0], issued_at)
                      : ops::detail::sum_of_rows(*ids, *values, weights.shape()[0], issued_at);
    if (factor != 1) {
      rows.values = ops::detail::scale(rows.values, factor, issued_at);
    }
    auto const range = MemoryRange::of(weights);
    state.row_gradients.remove_overlaps(range);
    state.row_gradients.emplace(range,
                                {weights.block(), {{weights.shape(), {std::move(rows), group()}}}});
  }

 private:
  /// Returns the values that this rank sends, as many rows as the capacity of the ids ahead. Those
  /// behind the rows that have a gradient may be any.
  [[nodiscard]] Floats own_values(std::int64_t width, std::source_location issued_at) const {
    auto const capacity = ahead->capacity;
    if (own.front() == nullptr) {
      Floats const none(table->weights.device(), {capacity, width});
      fill_any(none.any(), 0, issued_at);
      return none;
    }
    auto const& rows = std::get<ops::RowGradients<AnyRuntime>>(own.front()->rows);
    auto const count = rows.values.shape()[0];
    if (count >= capacity) {
      return rows.values.rows(0, capacity);
    }
    Floats const padded(table->weights.device(), {capacity, width});
    fill_any(padded.rows(count, capacity).any(), 0, issued_at);
    copy_on_device(padded.rows(0, count).any(), rows.values.any(), issued_at);
    return padded;
  }
};

/// Returns the largest capacity of each table on any rank. Drops ids ahead of tables of which a
/// rank has another gradient than that of its ids.
[[nodiscard]] std::vector<std::int64_t> largest_capacities(std::vector<NamedTable> const& tables,
                                                           std::vector<Exchanged>& all,
                                                           AnyCommunicator const& communicator) {
  std::vector<std::int64_t> largest;
  bool are_final = false;
  while (!are_final) {
    std::vector<std::int64_t> own;
    for (auto const& table : all) {
      own.push_back(table.has_ids_ahead() ? table.capacity() : kOther);
    }
    are_final = true;
    largest.assign(tables.size(), 0);
    for (auto const& theirs : rows_of_ranks(tables, own, communicator)) {
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        if (theirs[i] == kOther) {
          all[i].ahead.reset();
          are_final = false;
        }
        largest[i] = std::max(largest[i], theirs[i]);
      }
    }
  }
  return largest;
}

}  // namespace

void exchange_rows(TapeState& state,
                   std::vector<NamedTable> const& tables,
                   std::vector<RowsOfPart> const& parts,
                   std::vector<std::optional<IdsAhead>> ahead,
                   AnyCommunicator const& communicator,
                   float factor,
                   std::source_location issued_at) {
  if (tables.empty() || (communicator.size() == 1 && parts.size() == 1 && factor == 1)) {
    return;
  }
  NameScope const names("data_parallel");
  std::vector<Exchanged> all;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    auto& exchanged = all.emplace_back(Exchanged{&tables[i], {}});
    for (auto const& part : parts) {
      exchanged.own.push_back(part[i] ? &*part[i] : nullptr);
    }
    if (!ahead.empty()) {
      exchanged.ahead = std::move(ahead[i]);
    }
  }
  auto const capacities = largest_capacities(tables, all, communicator);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].ahead) {
      all[i].gather_values(communicator, issued_at);
    } else if (capacities[i] > 0) {
      all[i].gather(std::min(capacities[i], tables[i].weights.shape()[0]), communicator, issued_at);
    }
  }
  for (auto const& exchanged : all) {
    if (exchanged.values) {
      exchanged.put_on(state, factor, issued_at);
    }
  }
}

}  // namespace msstream::detail
