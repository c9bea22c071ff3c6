// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <cstdint>
#include <source_location>
#include <string>

namespace msstream::metrics {

/// `Recall@k`: the mean share of the relevant items of a row or list that are among its k best
/// scores. Empty without rows, or if their weights add up to 0.
///
/// A batch has rows with one relevant item each: scores [rows, columns], of each user for each
/// item, and `targets` [rows], the column of the item that the user chose; weights are of rows. No
/// sort is needed: the rank of the target is the number of better scores, plus 1. A score of
/// -infinity takes an item out of the ranking; a target that is out is a miss. Rows with NaN, and
/// targets outside the columns, are counted on the device, and value() throws std::invalid_argument
/// with their number until reset().
///
///     recall.update({.scores = ops::matmul(users, catalogue), .targets = items});
///
/// Or a batch has lists, as for Ndcg: `offsets` [lists + 1], and labels, of which those above 0.5
/// are of relevant items. Weights are 0 or 1: an item of weight 0 is left out. Lists without a
/// relevant item are left out.
///
///     recall.update({.scores = scores, .labels = clicked, .offsets = offsets});
///
/// Among equal scores, items have the mean over all their orders, so that scores that are all equal
/// are no better than chance.
template <Runtime R = DefaultRuntime>
class RecallAtK;

/// The options and the implementation of RecallAtK, the same for all runtimes.
template <>
class RecallAtK<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "recall_at_k";  ///< in reports and checkpoints
    std::int64_t k = 10;               ///< how many of the first ranks count
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

/// The `hit rate@k`: the share of rows or lists that have a relevant item among the k best scores;
/// of rows with one target, their recall. Batches are those of RecallAtK.
template <Runtime R = DefaultRuntime>
class HitRate;

/// The options and the implementation of HitRate, the same for all runtimes.
template <>
class HitRate<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "hit_rate";  ///< in reports and checkpoints
    std::int64_t k = 10;            ///< how many of the first ranks count
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class HitRate : public Metric<R> {
 public:
  using Options = typename HitRate<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without rows. Throws std::invalid_argument unless `k` is from 1 to 2^20, and
  /// std::logic_error in a capture.
  explicit HitRate(Device<R> const& device,
                   Options const& options = {},
                   std::source_location issued_at = std::source_location::current())
      : Metric<R>(
            HitRate<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

/// `MRR@k`: the weighted mean of 1 / rank of the target, or of the first relevant item of a list, 0
/// for ranks beyond k. Batches are those of RecallAtK.
template <Runtime R = DefaultRuntime>
class MeanReciprocalRank;

/// The options and the implementation of MeanReciprocalRank, the same for all runtimes.
template <>
class MeanReciprocalRank<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "mrr";  ///< in reports and checkpoints
    std::int64_t k = 10;       ///< how many of the first ranks count
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

/// `MAP@k`: the mean over lists of the average precision: the sum, over the relevant items of the
/// first k ranks, of the share of relevant items up to each, divided by the number of relevant
/// items, or by k if that is less. Of rows with one target, `MRR@k`. Batches are those of
/// RecallAtK.
template <Runtime R = DefaultRuntime>
class MeanAveragePrecision;

/// The options and the implementation of MeanAveragePrecision, the same for all runtimes.
template <>
class MeanAveragePrecision<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "map";  ///< in reports and checkpoints
    std::int64_t k = 10;       ///< how many of the first ranks count
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class MeanAveragePrecision : public Metric<R> {
 public:
  using Options = typename MeanAveragePrecision<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without rows. Throws std::invalid_argument unless `k` is from 1 to 2^20, and
  /// std::logic_error in a capture.
  explicit MeanAveragePrecision(Device<R> const& device,
                                Options const& options = {},
                                std::source_location issued_at = std::source_location::current())
      : Metric<R>(MeanAveragePrecision<msstream::detail::AnyRuntime>::make(
            device.engine(), options, issued_at)) {}
};

}  // namespace msstream::metrics
