// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/rank_lists.hpp"
#include "rerank_shape.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace train_rerank {

/// Item lists of some queries in host memory, each padded to the same number of items.
struct HostBatch {
  std::int64_t queries = 0;
  std::int64_t items = 0;                       ///< items in a list, with padding
  std::vector<std::vector<float>> users = {};   ///< per user group: [queries, its columns]
  std::vector<std::vector<float>> listed = {};  ///< per item group: [queries, items, its columns]
  std::vector<float> labels = {};               ///< [targets, queries, items], in [0, 1]
  std::vector<std::int64_t> lengths = {};       ///< [queries]

  /// Returns a batch of zeros, whose lists have no items.
  [[nodiscard]] static HostBatch empty(std::int64_t queries,
                                       std::int64_t items,
                                       RerankShape const& shape) {
    auto const places = queries * items;
    HostBatch batch{.queries = queries, .items = items};
    for (int group = 0; group < shape.user_groups; ++group) {
      batch.users.emplace_back(queries * shape.user_columns(group).count());
    }
    for (int group = 0; group < shape.item_groups; ++group) {
      batch.listed.emplace_back(places * shape.item_columns(group).count());
    }
    batch.labels.resize(static_cast<std::size_t>(shape.targets * places));
    batch.lengths.resize(static_cast<std::size_t>(queries));
    return batch;
  }
};

namespace detail {

/// Adds the features of an item, times `factor`, to the features of the user.
inline void add_to_user(HostBatch& batch,
                        std::int64_t query,
                        float const* features,
                        float factor,
                        RerankShape const& shape) {
  for (int group = 0; group < shape.user_groups; ++group) {
    auto const columns = shape.user_columns(group);
    auto* const user =
        batch.users[static_cast<std::size_t>(group)].data() + query * columns.count();
    for (auto c = columns.begin; c < columns.end; ++c) {
      user[c - columns.begin] += factor * features[c];
    }
  }
}

/// Writes an item's features and labels at position `place`, which counts the items of all padded
/// lists of the batch.
inline void put_item(HostBatch& batch,
                     std::int64_t place,
                     float const* features,
                     float grade,
                     RerankShape const& shape) {
  for (int group = 0; group < shape.item_groups; ++group) {
    auto const columns = shape.item_columns(group);
    std::copy(features + columns.begin,
              features + columns.end,
              batch.listed[static_cast<std::size_t>(group)].begin() + place * columns.count());
  }
  for (int target = 0; target < shape.targets; ++target) {
    auto const first = target * batch.queries * batch.items;
    batch.labels[static_cast<std::size_t>(first + place)] =
        grade > static_cast<float>(target) ? 1.0F : 0.0F;
  }
}

}  // namespace detail

/// Returns the lists of the queries with the given numbers, padded to `items` items each. The only
/// known data of the user is the list that was made for them, so the user's features are the means
/// of its columns over the list. The label of target t is 1 for items of a grade above t. Throws
/// std::invalid_argument for a list that is longer than `items` or data with another number of
/// columns, and std::out_of_range for a query that does not exist.
[[nodiscard]] inline HostBatch gather(ms::datasets::RankLists const& lists,
                                      std::span<std::int64_t const> queries,
                                      std::int64_t items,
                                      RerankShape const& shape) {
  ms::require(lists.columns == shape.columns,
              "lists of {} columns for a model of {}",
              lists.columns,
              shape.columns);
  auto batch = HostBatch::empty(static_cast<std::int64_t>(queries.size()), items, shape);
  for (std::int64_t q = 0; q < batch.queries; ++q) {
    auto const query = static_cast<std::size_t>(queries[static_cast<std::size_t>(q)]);
    auto const begin = lists.offsets.at(query);
    auto const length = lists.offsets.at(query + 1) - begin;
    ms::require(length <= items, "a list of {} items in {} places", length, items);
    batch.lengths[static_cast<std::size_t>(q)] = length;
    for (std::int64_t i = 0; i < length; ++i) {
      auto const* const features = lists.features.data() + (begin + i) * lists.columns;
      auto const grade = lists.grades[static_cast<std::size_t>(begin + i)];
      detail::add_to_user(batch, q, features, 1.0F / static_cast<float>(length), shape);
      detail::put_item(batch, q * items + i, features, grade, shape);
    }
  }
  return batch;
}

/// One batch on the device. Positions beyond a list's length have no influence, as long as their
/// values are finite and their labels are in [0, 1].
template <ms::Runtime R>
struct DeviceBatch {
  std::vector<ms::Tensor<float, R>> users;  ///< per user group: [queries, its columns]
  std::vector<ms::Tensor<float, R>> items;  ///< per item group: [queries, items, its columns]
  ms::Tensor<float, R> labels;              ///< [targets, queries, items]
  ms::Tensor<std::int64_t, R> lengths;      ///< [queries]; an empty list counts, with a loss of 0

  DeviceBatch(ms::Device<R> const& device, HostBatch const& host, RerankShape const& shape)
      : labels(ms::to_device<float, R>(
            device, host.labels, {shape.targets, host.queries, host.items})),
        lengths(ms::to_device<std::int64_t, R>(device, host.lengths, {host.queries})) {
    for (int group = 0; group < shape.user_groups; ++group) {
      users.push_back(ms::to_device<float, R>(device,
                                              host.users[static_cast<std::size_t>(group)],
                                              {host.queries, shape.user_columns(group).count()}));
    }
    for (int group = 0; group < shape.item_groups; ++group) {
      items.push_back(
          ms::to_device<float, R>(device,
                                  host.listed[static_cast<std::size_t>(group)],
                                  {host.queries, host.items, shape.item_columns(group).count()}));
    }
  }
};

/// Copies `from` into `to`, a batch of the same sizes.
template <ms::Runtime R>
void overwrite(DeviceBatch<R> const& to, DeviceBatch<R> const& from) {
  for (std::size_t group = 0; group < to.users.size(); ++group) {
    ms::copy(to.users[group], from.users[group]);
  }
  for (std::size_t group = 0; group < to.items.size(); ++group) {
    ms::copy(to.items[group], from.items[group]);
  }
  ms::copy(to.labels, from.labels);
  ms::copy(to.lengths, from.lengths);
}

}  // namespace train_rerank
