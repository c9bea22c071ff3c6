// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

namespace msstream::detail {
namespace {

[[nodiscard]] std::string_view form_of(ExchangedIds const& ids) {
  bool const is_split =
      (ids.ahead && ids.ahead->split) || (ids.pooled_ahead && ids.pooled_ahead->split);
  bool const is_ahead = ids.ahead || ids.pooled_ahead;
  return !is_ahead ? "no prefetched rows" : is_split ? "prefetched rows" : "stale rows";
}

[[nodiscard]] bool is_weighted(ExchangedIds const& ids) {
  return (ids.received && ids.received->weights) || (ids.own && ids.own->weights);
}

/// Returns all tensors of bags, as many of other bags of the same tables and the same form.
[[nodiscard]] std::vector<AnyTensor> tensors_of(ExchangedIds const& ids) {
  std::vector<AnyTensor> all;
  auto const add_bags = [&](ops::TableBags<AnyRuntime> const& bags) {
    all.push_back(bags.ids.any());
    all.push_back(bags.offsets->any());
    if (bags.weights) {
      all.push_back(bags.weights->any());
    }
  };
  if (ids.received) {
    add_bags(*ids.received);
  }
  if (ids.own) {
    add_bags(*ids.own);
  }
  if (ids.divisors) {
    all.push_back(ids.divisors->any());
  }
  if (ids.distinct) {
    add_bags(ids.distinct->bags);
    auto const& distinct = *ids.distinct;
    all.insert(all.end(), {distinct.sent.any(), distinct.received.any(), distinct.places.any()});
  }
  if (ids.ahead) {
    all.push_back(ids.ahead->rows.any());
  }
  if (ids.ahead && ids.ahead->split) {
    auto const& split = *ids.ahead->split;
    all.insert(all.end(), {split.here.any(), split.late.any(), split.late_sent.any()});
  }
  if (ids.pooled_ahead) {
    all.push_back(ids.pooled_ahead->rows.any());
  }
  if (ids.pooled_ahead && ids.pooled_ahead->argmax) {
    all.push_back(ids.pooled_ahead->argmax->any());
  }
  if (ids.pooled_ahead && ids.pooled_ahead->split) {
    auto const& split = *ids.pooled_ahead->split;
    all.insert(all.end(), {split.before.any(), split.late_ids.any()});
  }
  return all;
}

}  // namespace

void assign_ids(ExchangedIds const& to, ExchangedIds const& from, std::source_location issued_at) {
  require(to.tables == from.tables && to.samples == from.samples,
          "ShardedIds: ids of {} samples assigned to those of {}{}; expected the same tables and "
          "as many samples",
          from.samples,
          to.samples,
          to.tables == from.tables ? "" : " of other tables");
  require(form_of(to) == form_of(from),
          "ShardedIds: ids with {} assigned to those with {}; expected one form",
          form_of(from),
          form_of(to));
  if (&to == &from) {
    return;
  }
  require(is_weighted(to) == is_weighted(from),
          "ShardedIds: ids {} weights assigned to those {}; expected both with or both without",
          is_weighted(from) ? "with" : "without",
          is_weighted(to) ? "with" : "without");
  from.tables->send_ahead();
  auto const targets = tensors_of(to);
  auto const sources = tensors_of(from);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    copy_on_device(targets[i], sources[i], issued_at);
  }
}

}  // namespace msstream::detail
