// SPDX-License-Identifier: Apache-2.0
#include "ops/common/bag_view.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/bags.hpp>

namespace msstream::ops::detail {

void require_bags(AnyIds const& ids) {
  require(ids.shape().rank() == 1 || ids.shape().rank() == 2,
          "bags of fixed hotness: ids of shape {}; expected [bags] or [bags, hotness]",
          ids.shape());
}

void require_bags(AnyIds const& ids, AnyIds const& offsets) {
  require(ids.shape().rank() == 1 && offsets.shape().rank() == 1 && offsets.count() >= 1,
          "jagged bags: ids of shape {}, offsets of shape {}; expected [capacity] and [bags + 1]",
          ids.shape(),
          offsets.shape());
  require(offsets.dtype() == ids.dtype(),
          "jagged bags: ids of {} with offsets of {}; expected the same type",
          ids.dtype(),
          offsets.dtype());
}

kernels::BagView view_of(AnyBags const& bags) {
  auto const& [ids, offsets, bag_count, weights, default_id] = bags;
  require(!bag_count || bag_count->count() == 1,
          "bags: a bag_count of shape {}; expected a scalar",
          bag_count ? bag_count->shape() : Shape{});
  require(!weights || weights->count() == ids.count(),
          "bags: weights of shape {} for ids of shape {}",
          weights ? weights->shape() : Shape{},
          ids.shape());
  require(!default_id || *default_id >= 0,
          "bags: a default id of {}; expected a row of the table",
          default_id.value_or(0));
  return {.ids = ids.data(),
          .id_dtype = ids.dtype(),
          .bags = bags.bags(),
          .capacity = ids.count(),
          .hotness = bags.hotness(),
          .offsets = offsets ? offsets->data() : nullptr,
          .bag_count = bag_count ? bag_count->data() : nullptr,
          .weights = weights ? weights->data() : nullptr,
          .default_id = default_id.value_or(-1)};
}

Reads reads_of(AnyBags const& bags) {
  Reads list;
  list.add(bags.ids.any());
  if (bags.offsets) {
    list.add(bags.offsets->any());
  }
  if (bags.bag_count) {
    list.add(*bags.bag_count);
  }
  if (bags.weights) {
    list.add(*bags.weights);
  }
  return list;
}

}  // namespace msstream::ops::detail
