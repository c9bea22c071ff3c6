// SPDX-License-Identifier: Apache-2.0
#include "ids/joined_bags.hpp"

#include "ops/common/bag_view.hpp"
#include "ops/common/id_array.hpp"
#include "ops/common/offset_report.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

void require_joinable(std::vector<AnyBags> const& bags) {
  require(!bags.empty(), "joined_bags: {} columns; expected at least one", bags.size());
  auto const& first = bags.front();
  for (std::size_t i = 0; i < bags.size(); ++i) {
    static_cast<void>(view_of(bags[i]));  // checks the weights and the count
    require(bags[i].bags() == first.bags(),
            "joined_bags: {} bags in column {}, {} in column 0; expected one batch",
            bags[i].bags(),
            i,
            first.bags());
    require(bags[i].ids.device() == first.ids.device(),
            "joined_bags: column {} is on another device than column 0",
            i);
    require(!bags[i].default_id,
            "joined_bags: column {} has a default id of {}; expected it in EmbeddingTable",
            i,
            bags[i].default_id.value_or(0));
    bool const same_count = bags[i].bag_count && first.bag_count
                                ? bags[i].bag_count->data() == first.bag_count->data()
                                : bags[i].bag_count.has_value() == first.bag_count.has_value();
    require(same_count, "joined_bags: column {} has another bag_count than column 0", i);
  }
}

[[nodiscard]] kernels::JoinedPiece piece_of(AnyBags const& bags) {
  return {id_array(bags.ids.any()),
          bags.offsets ? id_array(bags.offsets->any()) : kernels::IdArray(),
          bags.weights ? bags.weights->data() : nullptr,
          bags.ids.count(),
          bags.hotness()};
}

}  // namespace

TableBags<AnyRuntime> joined_bags(std::vector<AnyBags> const& bags,
                                  OffsetPolicy<AnyRuntime> const& policy,
                                  std::source_location issued_at) {
  require_joinable(bags);
  auto const& device = bags.front().ids.device();
  auto const batch = bags.front().bags();
  std::int64_t capacity = 0;
  bool weighted = false;
  for (auto const& column : bags) {
    capacity += column.ids.count();
    weighted = weighted || column.weights.has_value();
  }
  TensorOf<std::int64_t> const lengths(device, {std::ssize(bags) * batch});
  TensorOf<std::int64_t> const ids(device, {capacity});
  std::optional<Floats> weights;
  if (weighted) {
    weights.emplace(device, Shape{capacity});
  }
  auto const& count = bags.front().bag_count;
  // Calls visit(args, reads, first bag) for each group of columns that one launch takes.
  auto const for_each_group = [&](auto const& visit) {
    std::span<AnyBags const> rest(bags);
    for (std::int64_t first = 0; !rest.empty();) {
      auto const columns =
          rest.first(std::min<std::size_t>(rest.size(), kernels::kMostJoinedPieces));
      kernels::JoinedBagsArgs args{};
      Reads read;
      for (auto const& column : columns) {
        args.at[args.pieces++] = piece_of(column);
        read.add(reads_of(column));
      }
      args.batch = batch;
      args.count = count ? count->data() : nullptr;
      args.first_bag = first;
      visit(args, read, first);
      first += args.pieces * batch;
      rest = rest.subspan(columns.size());
    }
  };
  for_each_group([&](kernels::JoinedBagsArgs args, Reads const& read, std::int64_t first) {
    auto written = writes(lengths);
    args.report = offset_report("joined_bags", *device, policy, written);
    issue(
        "joined_lengths",
        read,
        written,
        [args, target = lengths.data() + first](auto stream) {
          kernels::joined_lengths(stream, args, target);
        },
        {},
        issued_at);
  });
  auto const offsets = lengths_to_offsets(lengths.any(), {}, issued_at);
  for_each_group([&](kernels::JoinedBagsArgs const& args, Reads read, std::int64_t first) {
    read.add(offsets);
    auto written = writes(ids);
    if (weights) {
      written.add(*weights);
    }
    kernels::JoinedPlaces const places{
        offsets.data() + first, ids.data(), weights ? weights->data() : nullptr};
    issue(
        "joined_ids",
        read,
        written,
        [args, places](auto stream) { kernels::joined_ids(stream, args, places); },
        {},
        issued_at);
  });
  return {ids, batch, AnyIds(offsets), count, weights};
}

}  // namespace msstream::ops::detail
