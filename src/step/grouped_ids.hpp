// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/bag_view.hpp"

#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding.hpp>

#include <cstdint>
#include <map>
#include <source_location>
#include <tuple>
#include <utility>

namespace msstream::detail {

/// A cache of the ids of lookups, grouped by table row (see ops::deduplicate()). Lookups of the
/// same bags in tables with the same number of rows share a grouping. Not synchronised.
class GroupedIds {
 public:
  /// Returns the ids of the bags grouped by table row. Valid until clear(). `pooling` is passed to
  /// ops::deduplicate().
  ops::UniqueRows<AnyRuntime> const& of(ops::Bags<AnyRuntime> const& bags,
                                        std::int64_t rows,
                                        ops::Pooling pooling,
                                        std::source_location issued_at) {
    auto const view = ops::detail::view_of(bags);
    bool const has_rows_of_all = view.offsets != nullptr && pooling == ops::Pooling::none;
    Key const key{view.ids,
                  view.capacity,
                  view.bags,
                  view.offsets,
                  view.bag_count,
                  view.default_id,
                  rows,
                  has_rows_of_all};
    auto found = unique_rows_.find(key);
    if (found == unique_rows_.end()) {
      auto unique = ops::detail::deduplicate(bags, rows, pooling, issued_at);
      found = unique_rows_.emplace(key, std::make_pair(bags, std::move(unique))).first;
    }
    return found->second.second;
  }
  void clear() noexcept { unique_rows_.clear(); }

 private:
  /// The key of a grouping: ids, capacity of the ids, bags, offsets, bag count, default id, rows of
  /// the table, and whether the ids of bad bags are included.
  using Key = std::tuple<void const*,
                         std::int64_t,
                         std::int64_t,
                         void const*,
                         std::int64_t const*,
                         std::int64_t,
                         std::int64_t,
                         bool>;

  std::map<Key, std::pair<ops::Bags<AnyRuntime>, ops::UniqueRows<AnyRuntime>>> unique_rows_;
};

}  // namespace msstream::detail
