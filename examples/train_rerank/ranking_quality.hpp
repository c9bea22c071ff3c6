// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rerank_batch.hpp"
#include "training/metrics.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace train_rerank {

/// The quality of ranked lists: the mean of the loss over the lists, and the mean of NDCG@10 over
/// the lists that have an item of a grade above 0. The score of an item is the sum of its targets'
/// probabilities, which is its expected grade.
class RankingQuality {
 public:
  static constexpr std::size_t kPlaces = 10;

  /// Adds the ranked lists of a batch, which are those of `lists` with the numbers `queries`.
  /// `logits` has the logits of each target, [queries, items].
  void add(ms::datasets::RankLists const& lists,
           std::span<std::int64_t const> queries,
           HostBatch const& batch,
           std::vector<std::vector<float>> const& logits) {
    for (std::size_t q = 0; q < queries.size(); ++q) {
      auto const length = static_cast<std::size_t>(batch.lengths[q]);
      auto const items = static_cast<std::size_t>(batch.items);
      std::vector<float> scores(length);
      double loss = 0;
      for (std::size_t target = 0; target < logits.size(); ++target) {
        auto const own = std::span(logits[target]).subspan(q * items, length);
        auto const labels =
            std::span(batch.labels).subspan((target * queries.size() + q) * items, length);
        loss += ms::training::log_loss(own, labels);
        for (std::size_t i = 0; i < length; ++i) {
          scores[i] += 1.0F / (1.0F + std::exp(-own[i]));
        }
      }
      loss_.add(loss);
      auto const first =
          static_cast<std::size_t>(lists.offsets[static_cast<std::size_t>(queries[q])]);
      if (auto const gain =
              ms::training::ndcg(scores, std::span(lists.grades).subspan(first, length), kPlaces)) {
        ndcg_.add(*gain);
      }
    }
  }

  /// Returns the mean loss; empty if there were no lists.
  [[nodiscard]] std::optional<double> loss() const { return loss_.mean(); }
  [[nodiscard]] std::optional<double> ndcg() const { return ndcg_.mean(); }

 private:
  ms::training::StreamingMean loss_;
  ms::training::StreamingMean ndcg_;
};

}  // namespace train_rerank
