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

/// Runs what is issued meanwhile on the group of a gradient's lookup, if there is one.
class ScopeOfLookup {
 public:
  ScopeOfLookup(std::optional<LookupGradient> const& own, std::source_location issued_at) {
    if (own && own->group != nullptr) {
      scope_.emplace(own->group, StreamScopeOptions{}, issued_at);
    }
  }

 private:
  std::optional<AnyStreamScope> scope_;
};

/// The gradient of one table, on this rank and then on all.
struct Exchanged {
  NamedTable const* table;
  std::optional<LookupGradient> own;
  std::optional<TensorOf<std::int64_t>> ids = {};  ///< of all ranks
  std::optional<Floats> values = {};

  [[nodiscard]] std::int64_t capacity() const {
    return table->weights.immutable() ? kFrozen
           : own                      ? ops::detail::view_of(own->rows).capacity
                                      : 0;
  }
  void gather(std::int64_t capacity,
              AnyCommunicator const& communicator,
              std::source_location issued_at) {
    ScopeOfLookup const scope(own, issued_at);
    auto const& device = table->weights.device();
    auto const width = table->weights.shape()[1];
    TensorOf<std::int64_t> part_of_ids(device, {capacity});
    Floats part_of_values(device, {capacity, width});
    if (own) {
      auto const padded = ops::detail::padded_rows(own->rows, width, capacity, issued_at);
      part_of_ids = padded.ids;
      part_of_values = padded.values;
    } else {
      fill_any(part_of_ids.any(), 0xFF, issued_at);  // -1
      fill_any(part_of_values.any(), 0, issued_at);
    }
    ids.emplace(device, Shape{communicator.size() * capacity});
    values.emplace(device, Shape{communicator.size() * capacity, width});
    comm::detail::all_gather(communicator, part_of_ids.any(), ids->any(), issued_at);
    comm::detail::all_gather(communicator, part_of_values.any(), values->any(), issued_at);
  }
  void put_on(TapeState& state, float factor, std::source_location issued_at) const {
    ScopeOfLookup const scope(own, issued_at);
    auto const& weights = table->weights;
    auto rows = ops::detail::sum_of_rows(*ids, *values, weights.shape()[0], issued_at);
    if (factor != 1) {
      rows.values = ops::detail::scale(rows.values, factor, issued_at);
    }
    auto const range = MemoryRange::of(weights);
    state.row_gradients.remove_overlaps(range);
    state.row_gradients.emplace(
        range,
        {weights.block(), {{weights.shape(), {std::move(rows), own ? own->group : nullptr}}}});
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

void exchange_rows(AnyTape& tape,
                   std::vector<NamedTable> const& tables,
                   AnyCommunicator const& communicator,
                   comm::Reduction reduction,
                   std::source_location issued_at) {
  if (tables.empty() || communicator.size() == 1) {
    return;
  }
  NameScope const names("data_parallel");
  std::vector<Exchanged> all;
  for (auto const& table : tables) {
    all.push_back({&table,
                   table.weights.immutable() ? std::nullopt
                                             : tape.lookup_gradient(table.weights, issued_at)});
  }
  auto const capacities = largest_capacities(all, communicator);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (capacities[i] > 0) {
      all[i].gather(std::min(capacities[i], tables[i].weights.shape()[0]), communicator, issued_at);
    }
  }
  auto const factor =
      reduction == comm::Reduction::mean ? 1 / static_cast<float>(communicator.size()) : 1.0F;
  for (auto const& exchanged : all) {
    if (exchanged.ids) {
      exchanged.put_on(tape.state(), factor, issued_at);
    }
  }
}

}  // namespace msstream::detail
