// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/embedding.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace msstream::ops {

/// Ids in bags, one bag an output row: `ids` is [bags] or [bags, hotness], or with `offsets`
/// [capacity].
///
/// offsets: [bags + 1], ascending, on the device; bag b has ids[offsets[b] : offsets[b + 1]].
/// bag_count: a device scalar, how many of the bags exist, so that one launch serves every batch up
/// to a capacity; later output rows are 0.
template <Runtime R>
struct Bags {
  Tensor<std::int64_t, R> ids;
  std::optional<Tensor<std::int64_t, R>> offsets = {};
  std::optional<Tensor<std::int64_t, R>> bag_count = {};

  Bags(Tensor<std::int64_t, R> all_ids)  // NOLINT(google-explicit-constructor): ids alone are bags
      : ids(std::move(all_ids)) {
    require(ids.shape().rank() == 1 || ids.shape().rank() == 2,
            "bags of fixed hotness: ids of shape ",
            ids.shape(),
            "; expected [bags] or [bags, hotness]");
  }
  Bags(Tensor<std::int64_t, R> all_ids, Tensor<std::int64_t, R> bag_offsets)
      : ids(std::move(all_ids)), offsets(std::move(bag_offsets)) {
    require(ids.shape().rank() == 1 && offsets->shape().rank() == 1 && offsets->count() >= 1,
            "jagged bags: ids of shape ",
            ids.shape(),
            ", offsets of shape ",
            offsets->shape(),
            "; expected [capacity] and [bags + 1]");
  }

  [[nodiscard]] std::int64_t bags() const {
    return offsets ? offsets->count() - 1 : ids.shape()[0];
  }
  [[nodiscard]] std::int64_t hotness() const {
    return !offsets && ids.shape().rank() == 2 ? ids.shape()[1] : 1;
  }
  /// Throws std::invalid_argument when bag_count is no scalar.
  [[nodiscard]] kernels::BagLayout layout() const {
    require(!bag_count || bag_count->count() == 1,
            "bags: a bag_count of shape ",
            bag_count ? bag_count->shape() : Shape{},
            "; expected a scalar");
    return {bags(),
            ids.count(),
            hotness(),
            offsets ? offsets->data() : nullptr,
            bag_count ? bag_count->data() : nullptr};
  }
};

namespace detail {

template <Runtime R>
auto reads_of(Bags<R> const& bags) {
  auto list = reads(bags.ids);
  if (bags.offsets) {
    list.add(*bags.offsets);
  }
  if (bags.bag_count) {
    list.add(*bags.bag_count);
  }
  return list;
}

}  // namespace detail
}  // namespace msstream::ops
