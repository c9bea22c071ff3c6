// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace msstream::training {

/// Returns the area under the ROC curve, exactly: the fraction of (positive, negative) pairs that
/// the scores order correctly, ties counting a half. O(n log n). Empty if one of the classes is. A
/// label is positive if it is above 0.5. Throws std::invalid_argument for different lengths or a
/// NaN score, which has no order.
[[nodiscard]] std::optional<double> roc_auc(std::span<float const> scores,
                                            std::span<float const> labels);

/// Returns the mean negative log likelihood of labels in [0, 1] under sigmoid(logits), in nats.
/// Does not overflow for any finite logit. Throws std::invalid_argument for different or zero
/// lengths.
[[nodiscard]] double log_loss(std::span<float const> logits, std::span<float const> labels);

/// Returns the fraction of rows where score > threshold agrees with label > 0.5; for logits the
/// threshold is 0. Throws std::invalid_argument for different or zero lengths.
[[nodiscard]] double accuracy(std::span<float const> scores,
                              std::span<float const> labels,
                              float threshold = 0.0F);

/// Returns the normalised discounted cumulated gain of the first `places` items of a list (Järvelin
/// and Kekäläinen 2002): the gain of an item is 2^grade - 1, its discount log2(rank + 1), and the
/// sum is divided by that of the best order. Items of equal score share the gains of their ranks,
/// as the mean over all their orders (McSherry and Najork 2008). Empty if no item has a grade above
/// 0. Throws std::invalid_argument for different lengths, a NaN score, a grade below 0, or `places`
/// of 0.
[[nodiscard]] std::optional<double> ndcg(std::span<float const> scores,
                                         std::span<float const> grades,
                                         std::size_t places);

/// Returns the value that `percent` of the values do not exceed, interpolated between the two
/// nearest. Throws std::invalid_argument if there are no values, and for a percentage outside [0,
/// 100].
[[nodiscard]] double percentile(std::span<double const> values, double percent);

/// A weighted mean of values that are added one at a time (West 1979).
class StreamingMean {
 public:
  void add(double value, double weight = 1.0) noexcept {
    weight_ += weight;
    if (weight_ > 0) {
      mean_ += (value - mean_) * (weight / weight_);
    }
  }
  /// Returns the mean; empty before a value of positive weight is added.
  [[nodiscard]] std::optional<double> mean() const noexcept {
    return weight_ > 0 ? std::optional(mean_) : std::nullopt;
  }

 private:
  double mean_ = 0;
  double weight_ = 0;
};

}  // namespace msstream::training
