// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <cstdint>
#include <source_location>
#include <string>

namespace msstream::metrics {

/// Recall@k of retrieval: the weighted fraction of rows whose target is among the k best scores of
/// the row; also called hit rate. Empty if the weights add up to 0.
///
/// A batch has scores [rows, columns], of each user for each item, and `targets` [rows], the column
/// of the item that the user chose; weights are of rows. No sort is needed: the rank of the target
/// is the number of better scores, plus 1. Among equal scores, the target has the mean of their
/// ranks' terms, so that scores that are all equal are no better than chance. A score of -infinity
/// takes an item out of the ranking; a target that is out is a miss. Rows with NaN, and targets
/// outside the columns, are counted on the device, and value() throws std::invalid_argument with
/// their number until reset().
///
///     recall.update({.scores = ops::matmul(users, catalogue), .targets = items});
template <Runtime R = DefaultRuntime>
class RecallAtK;

/// The options and the implementation of RecallAtK, the same for all runtimes.
template <>
class RecallAtK<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "recall_at_k";
    std::int64_t k = 10;  ///< how many of the first ranks count
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class RecallAtK : public Metric<R> {
 public:
  using Options = typename RecallAtK<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without rows. Throws std::invalid_argument unless `k` is from 1 to 2^20, and
  /// std::logic_error in a capture.
  explicit RecallAtK(Device<R> const& device,
                     Options const& options = {},
                     std::source_location issued_at = std::source_location::current())
      : Metric<R>(
            RecallAtK<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

/// MRR@k: the weighted mean of 1 / rank of the targets, 0 for ranks beyond k. Batches are those of
/// RecallAtK.
template <Runtime R = DefaultRuntime>
class MeanReciprocalRank;

/// The options and the implementation of MeanReciprocalRank, the same for all runtimes.
template <>
class MeanReciprocalRank<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "mrr";
    std::int64_t k = 10;  ///< how many of the first ranks count
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class MeanReciprocalRank : public Metric<R> {
 public:
  using Options = typename MeanReciprocalRank<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without rows. Throws std::invalid_argument unless `k` is from 1 to 2^20, and
  /// std::logic_error in a capture.
  explicit MeanReciprocalRank(Device<R> const& device,
                              Options const& options = {},
                              std::source_location issued_at = std::source_location::current())
      : Metric<R>(MeanReciprocalRank<msstream::detail::AnyRuntime>::make(
            device.engine(), options, issued_at)) {}
};

}  // namespace msstream::metrics
