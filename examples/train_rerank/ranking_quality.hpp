// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rerank_batch.hpp"

#include <msstream/msstream.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace train_rerank {

/// The quality of ranked lists: the mean of the loss over the lists, and the mean of NDCG@10 over
/// the lists that have an item of a grade above 0. The score of an item is the sum of its targets'
/// probabilities, which is its expected grade. Measured on the device; the values wait for it.
template <ms::Runtime R>
class RankingQuality {
 public:
  static constexpr std::int64_t kPlaces = 10;

  RankingQuality(ms::Device<R> const& device, int targets)
      : device_(device), ndcg_(device, {.k = kPlaces}) {
    for (int target = 0; target < targets; ++target) {
      losses_.emplace_back(device);
    }
  }

  /// Adds the ranked lists of a batch, which are those of `lists` with the numbers `queries`.
  /// `logits` has the logits of each target, [queries, items].
  void add(ms::datasets::RankLists const& lists,
           std::span<std::int64_t const> queries,
           HostBatch const& batch,
           std::vector<ms::Tensor<float, R>> const& logits) {
    auto const places = batch.queries * batch.items;
    auto const count = static_cast<std::size_t>(places);
    std::vector<float> grades(count);
    std::vector<float> weights(count);  // of one list together 1
    std::vector<float> behind(count, -std::numeric_limits<float>::infinity());
    std::vector<std::int64_t> offsets{0};
    for (std::size_t q = 0; q < queries.size(); ++q) {
      auto const length = static_cast<std::size_t>(batch.lengths[q]);
      auto const first =
          static_cast<std::size_t>(lists.offsets[static_cast<std::size_t>(queries[q])]);
      auto const begin = static_cast<std::size_t>(offsets.back());
      for (std::size_t i = 0; i < length; ++i) {
        grades[begin + i] = lists.grades[first + i];
        weights[begin + i] = 1.0F / static_cast<float>(length);
        behind[begin + i] = 0.0F;
      }
      offsets.push_back(offsets.back() + batch.items);
    }
    auto const put = [&](std::vector<float> const& values) {
      return ms::to_device<float, R>(device_, values, {batch.queries, batch.items});
    };
    auto const weight = put(weights);
    auto const labels = ms::to_device<float, R>(
        device_, batch.labels, {static_cast<std::int64_t>(logits.size()), places});
    // Places beyond a list come last, without a gain.
    std::vector scores{put(behind)};
    std::vector<ms::metrics::Update> updates;
    for (std::size_t target = 0; target < logits.size(); ++target) {
      auto const row = static_cast<std::int64_t>(target);
      scores.push_back(ms::ops::sigmoid(logits[target]));
      updates.push_back(losses_[target].with(
          {.scores = logits[target], .labels = labels.rows(row, row + 1), .weights = weight}));
    }
    updates.push_back(ndcg_.with(
        {.scores = ms::ops::add(scores),
         .labels = put(grades),
         .offsets = ms::to_device<std::int64_t, R>(device_, offsets, {batch.queries + 1})}));
    ms::metrics::update(updates);
  }

  /// Returns the mean loss; empty if there were no lists.
  [[nodiscard]] std::optional<double> loss() const {
    double sum = 0;
    for (auto const& loss : losses_) {
      auto const mean = loss.value();
      if (!mean) {
        return std::nullopt;
      }
      sum += *mean;
    }
    return sum;
  }
  [[nodiscard]] std::optional<double> ndcg() const { return ndcg_.value(); }

 private:
  ms::Device<R> device_;
  std::vector<ms::metrics::LogLoss<R>> losses_;  // of each target
  ms::metrics::Ndcg<R> ndcg_;
};

}  // namespace train_rerank
