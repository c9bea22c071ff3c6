// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <source_location>
#include <string>

namespace msstream::metrics {

/// The weighted sum of the predicted probabilities divided by the weighted sum of the labels: 1 for
/// predictions that are right on average. Empty if the labels add up to 0.
template <Runtime R = DefaultRuntime>
class Calibration;

/// The options and the implementation of Calibration, the same for all runtimes.
template <>
class Calibration<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "calibration";  ///< in reports and checkpoints
    Input input = Input::logits;       ///< whether scores are logits or probabilities
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class Calibration : public Metric<R> {
 public:
  using Options = typename Calibration<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples.
  explicit Calibration(Device<R> const& device,
                       Options const& options = {},
                       std::source_location issued_at = std::source_location::current())
      : Metric<R>(
            Calibration<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

/// The weighted fraction of examples for which "probability > threshold" agrees with "label > 0.5".
/// Empty if the weights add up to 0.
template <Runtime R = DefaultRuntime>
class Accuracy;

/// The options and the implementation of Accuracy, the same for all runtimes.
template <>
class Accuracy<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "accuracy";  ///< in reports and checkpoints
    Input input = Input::logits;    ///< whether scores are logits or probabilities
    /// A probability. Logits are compared with its logit, rounded to float32.
    double threshold = 0.5;
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class Accuracy : public Metric<R> {
 public:
  using Options = typename Accuracy<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples. Throws std::invalid_argument unless 0 < threshold < 1.
  explicit Accuracy(Device<R> const& device,
                    Options const& options = {},
                    std::source_location issued_at = std::source_location::current())
      : Metric<R>(
            Accuracy<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

}  // namespace msstream::metrics
