// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/row_exchange.hpp"

#include "ops/embedding_gradient/merged_gradients.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace msstream::detail {
namespace {

using comm::detail::AnyCommunicator;

/// Stands for the capacity of a frozen table.
constexpr std::int64_t kFrozen = -1;

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
  std::optional<TensorOf<std::int64_t>> ids = {};  ///< of all ranks
  std::optional<Floats> values = {};

  [[nodiscard]] std::int64_t capacity() const {
    std::int64_t most = table->weights.immutable() ? kFrozen : 0;
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
    auto rows = ops::detail::sum_of_rows(*ids, *values, weights.shape()[0], issued_at);
    if (factor != 1) {
      rows.values = ops::detail::scale(rows.values, factor, issued_at);
    }
    auto const range = MemoryRange::of(weights);
    state.row_gradients.remove_overlaps(range);
    state.row_gradients.emplace(range,
                                {weights.block(), {{weights.shape(), {std::move(rows), group()}}}});
  }
};

/// Returns the largest capacity of each table on any rank.
[[nodiscard]] std::vector<std::int64_t> largest_capacities(std::vector<Exchanged> const& tables,
                                                           AnyCommunicator const& communicator) {
  std::vector<std::int64_t> own;
  for (auto const& table : tables) {
    own.push_back(table.capacity());
  }
  std::vector<std::int64_t> largest;
  int rank = 0;
  for (auto const& text : communicator.exchange(fmt::format("{}", fmt::join(own, " ")))) {
    std::istringstream numbers(text);
    std::vector<std::int64_t> theirs;
    for (std::int64_t number = 0; numbers >> number;) {
      theirs.push_back(number);
    }
    if (rank == 0) {
      largest = theirs;
    }
    if (theirs.size() != largest.size()) {
      throw std::logic_error(fmt::format("DataParallel: rank 0 has {} tables, and rank {} has {}",
                                         largest.size(),
                                         rank,
                                         theirs.size()));
    }
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      if ((theirs[i] == kFrozen) != (largest[i] == kFrozen)) {
        throw std::logic_error(
            fmt::format("DataParallel: table '{}' is frozen on rank {}, and not on rank {}",
                        tables[i].table->name,
                        theirs[i] == kFrozen ? rank : 0,
                        theirs[i] == kFrozen ? 0 : rank));
      }
      largest[i] = std::max(largest[i], theirs[i]);
    }
    ++rank;
  }
  return largest;
}

}  // namespace

void exchange_rows(TapeState& state,
                   std::vector<NamedTable> const& tables,
                   std::vector<RowsOfPart> const& parts,
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
  }
  auto const capacities = largest_capacities(all, communicator);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (capacities[i] > 0) {
      all[i].gather(std::min(capacities[i], tables[i].weights.shape()[0]), communicator, issued_at);
    }
  }
  for (auto const& exchanged : all) {
    if (exchanged.ids) {
      exchanged.put_on(state, factor, issued_at);
    }
  }
}

}  // namespace msstream::detail
