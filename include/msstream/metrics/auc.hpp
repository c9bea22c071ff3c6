// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::metrics {

/// The exact area under the ROC curve: the weight of the pairs of a positive and a negative example
/// that the scores order correctly, as a fraction of all such pairs; pairs of equal score count a
/// half. Equal to scikit-learn's roc_auc_score. Scores are any numbers, infinite ones included.
///
/// Keeps every example, in 5 bytes of device memory, or 9 with weights, for each of `capacity`
/// examples. value() sorts them on the device, for which it allocates 32 more bytes per example.
/// More examples throw std::length_error, by the update that exceeds the capacity or by value().
template <Runtime R = DefaultRuntime>
class Auc;

/// The options and the implementation of Auc, the same for all runtimes.
template <>
class Auc<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "auc";          ///< in messages, and in the values of a MetricSet
    std::int64_t capacity = 1 << 20U;  ///< the most examples between two calls of reset()
    bool weighted = false;             ///< whether updates have weights
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class Auc : public Metric<R> {
 public:
  using Options = typename Auc<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples. Throws std::invalid_argument unless the capacity is from 1 to
  /// 2^31 - 1, and OutOfMemory.
  explicit Auc(Device<R> const& device,
               Options const& options = {},
               std::source_location issued_at = std::source_location::current())
      : Metric<R>(Auc<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

/// The area under the ROC curve of scores in buckets, in memory that does not grow: 16 bytes for
/// each bucket, or 48 with weights. Examples of one bucket count as ties, so the error is at most
/// half the fraction of pairs of different scores within one bucket: error_bound(). Mostly it is
/// far below.
///
/// Buckets follow a sample of scores: the first 1,023 examples of the first batch since reset(), or
/// Options::sample. Half of the buckets are divided equally among the ranges between neighbours of
/// the sample, so that they are narrow wherever many scores are, in clusters of any width. The
/// other half is finest at the sample's median logit, and their width grows with the distance from
/// it: each power of two of the distance, from 2^-48 to 2^16, has 1/128 of them on either side, for
/// scores that leave the sample's range later. Of fewer than 2^16 buckets, the sample is smaller:
/// 1/64 of the buckets, less one. Probabilities are divided by their logits.
template <Runtime R = DefaultRuntime>
class BucketedAuc;

/// The options and the implementation of BucketedAuc, the same for all runtimes.
template <>
class BucketedAuc<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "bucketed_auc";  ///< in reports and checkpoints
    Input input = Input::logits;        ///< whether scores are logits or probabilities
    std::int64_t buckets = 1 << 16U;    ///< a power of two
    bool weighted = false;              ///< whether updates have weights
    /// The logit at which the buckets are finest, also for probabilities. Null: the median of the
    /// sample. With a centre and no sample, no buckets follow a sample.
    std::optional<double> centre = {};
    /// Scores like those to come, in any order: probabilities or logits, as `input` says. Of many,
    /// quantiles are used. Empty: the first examples.
    std::vector<float> sample = {};
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
  [[nodiscard]] static std::optional<double> error_bound(detail::AnyMetric const& metric,
                                                         std::source_location issued_at);
  [[nodiscard]] static std::vector<float> sample(detail::AnyMetric const& metric,
                                                 std::source_location issued_at);
};

template <Runtime R>
class BucketedAuc : public Metric<R> {
 public:
  using Options = typename BucketedAuc<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples. Throws std::invalid_argument unless the number of buckets is
  /// a power of two from 2^8 to 2^24, the centre finite, and the sample without NaN and, if scores
  /// are probabilities, in [0, 1]; and OutOfMemory. Throws std::logic_error in a capture, if there
  /// is a sample.
  explicit BucketedAuc(Device<R> const& device,
                       Options const& options = {},
                       std::source_location issued_at = std::source_location::current())
      : Metric<R>(
            BucketedAuc<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}

  /// Returns a bound of the distance between value() and the exact area: half of the fraction of
  /// the pairs of a positive and a negative example that share a bucket of more than one score.
  /// Scores that are equal are among them, unless their bucket has no other score. Empty like
  /// value(), which it blocks and throws like.
  [[nodiscard]] std::optional<double> error_bound(
      std::source_location issued_at = std::source_location::current()) const {
    return BucketedAuc<msstream::detail::AnyRuntime>::error_bound(this->any(), issued_at);
  }
  /// Returns the scores that the buckets follow, ascending and different: those of Options::sample
  /// or of the first examples; none without either. As Options::sample of other metrics, in this
  /// process or on other ranks, they give equal buckets, which can be merged. Blocks and throws
  /// like value().
  [[nodiscard]] std::vector<float> sample(
      std::source_location issued_at = std::source_location::current()) const {
    return BucketedAuc<msstream::detail::AnyRuntime>::sample(this->any(), issued_at);
  }
};

/// GAUC: the mean of the exact AUC of each user's examples, weighted by the number of the user's
/// examples (Zhou et al., Deep Interest Network, 2018, section 6.2). Users whose examples are all
/// of one class are left out. Batches have `users`. Weights, if there are any, are 0 or 1: an
/// example of weight 0 is left out, but takes room.
///
/// Keeps every example, in 13 bytes of device memory, or 17 with weights, for each of `capacity`
/// examples. value() sorts them on the device, for which it allocates about 100 more bytes per
/// example.
template <Runtime R = DefaultRuntime>
class GroupedAuc;

/// The options and the implementation of GroupedAuc, the same for all runtimes.
template <>
class GroupedAuc<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "grouped_auc";  ///< in reports and checkpoints
    std::int64_t capacity = 1 << 20U;  ///< the most examples between two calls of reset()
    bool weighted = false;             ///< whether updates have weights
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class GroupedAuc : public Metric<R> {
 public:
  using Options = typename GroupedAuc<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples. Throws std::invalid_argument unless the capacity is from 1 to
  /// 2^31 - 1, and OutOfMemory.
  explicit GroupedAuc(Device<R> const& device,
                      Options const& options = {},
                      std::source_location issued_at = std::source_location::current())
      : Metric<R>(
            GroupedAuc<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

}  // namespace msstream::metrics
