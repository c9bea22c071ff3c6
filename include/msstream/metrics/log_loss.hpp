// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <optional>
#include <source_location>
#include <string>

namespace msstream::metrics {

/// The weighted mean of -(y log p + (1 - y) log(1 - p)) over examples with label y in [0, 1], in
/// nats. Equal to scikit-learn's log_loss. Empty if the weights add up to 0.
///
/// Probabilities are limited to [epsilon, 1 - epsilon], as scikit-learn does: epsilon is 2^-23 for
/// probabilities, which are float32, and 2^-52 for logits, as if their probabilities were float64.
template <Runtime R = DefaultRuntime>
class LogLoss;

/// The options and the implementation of LogLoss, the same for all runtimes.
template <>
class LogLoss<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "log_loss";       ///< in reports and checkpoints
    Input input = Input::logits;         ///< whether scores are logits or probabilities
    std::optional<double> epsilon = {};  ///< from 2^-60 to 0.25; null: as above
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class LogLoss : public Metric<R> {
 public:
  using Options = typename LogLoss<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples. Throws std::invalid_argument for an epsilon outside its
  /// range.
  explicit LogLoss(Device<R> const& device,
                   Options const& options = {},
                   std::source_location issued_at = std::source_location::current())
      : Metric<R>(
            LogLoss<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

/// The log loss divided by the entropy of the mean label, which is the log loss of a model that
/// always predicts that mean (He et al., Practical Lessons from Predicting Clicks on Ads at
/// Facebook, 2014). Below 1 for a model that has learned something. Empty if all labels are 0, or
/// all are 1.
template <Runtime R = DefaultRuntime>
class NormalizedEntropy;

/// The options and the implementation of NormalizedEntropy, the same for all runtimes.
template <>
class NormalizedEntropy<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "normalized_entropy";  ///< in reports and checkpoints
    Input input = Input::logits;              ///< whether scores are logits or probabilities
    std::optional<double> epsilon = {};       ///< as for LogLoss
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class NormalizedEntropy : public Metric<R> {
 public:
  using Options = typename NormalizedEntropy<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples. Throws std::invalid_argument for an epsilon outside its
  /// range.
  explicit NormalizedEntropy(Device<R> const& device,
                             Options const& options = {},
                             std::source_location issued_at = std::source_location::current())
      : Metric<R>(NormalizedEntropy<msstream::detail::AnyRuntime>::make(
            device.engine(), options, issued_at)) {}
};

}  // namespace msstream::metrics
