// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <source_location>
#include <string>

namespace msstream::metrics {

/// The weighted mean of numbers on the device, such as the losses of steps:
///
///     metrics::Mean const mean_loss(device, {.name = "loss"});
///     mean_loss.update({.scores = loss});  // a tensor of any shape, each step
///
/// Equal to the MeanMetric of torchmetrics. In a MetricSet, the mean of the scores. Empty if the
/// weights add up to 0. Numbers are cut to multiples of 2^-64, times their weights; numbers that
/// are infinite or, times their weights, at least 2^64 are reported like NaN. Of more than 2^31
/// numbers, value() throws std::length_error until reset().
template <Runtime R = DefaultRuntime>
class Mean;

/// The options and the implementation of Mean, the same for all runtimes.
template <>
class Mean<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "mean";  ///< in reports and checkpoints
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class Mean : public Metric<R> {
 public:
  using Options = typename Mean<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without numbers.
  explicit Mean(Device<R> const& device,
                Options const& options = {},
                std::source_location issued_at = std::source_location::current())
      : Metric<R>(Mean<msstream::detail::AnyRuntime>::make(device.engine(), options, issued_at)) {}
};

/// MSE: the weighted mean of (score - label)^2, for scores and labels of any size, or its square
/// root, RMSE. Empty if the weights add up to 0. Squares are cut to multiples of 2^-64, times their
/// weights; infinite numbers and squares that are, times their weights, at least 2^64 are reported
/// like NaN. Of more than 2^31 examples, value() throws std::length_error until reset().
template <Runtime R = DefaultRuntime>
class MeanSquaredError;

/// The options and the implementation of MeanSquaredError, the same for all runtimes.
template <>
class MeanSquaredError<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "mse";  ///< in reports and checkpoints
    bool squared = true;       ///< false: the value is the square root, as in torchmetrics
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class MeanSquaredError : public Metric<R> {
 public:
  using Options = typename MeanSquaredError<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples.
  explicit MeanSquaredError(Device<R> const& device,
                            Options const& options = {},
                            std::source_location issued_at = std::source_location::current())
      : Metric<R>(MeanSquaredError<msstream::detail::AnyRuntime>::make(
            device.engine(), options, issued_at)) {}
};

/// MAE: the weighted mean of |score - label|, for scores and labels of any size, with the limits of
/// Mean.
template <Runtime R = DefaultRuntime>
class MeanAbsoluteError;

/// The options and the implementation of MeanAbsoluteError, the same for all runtimes.
template <>
class MeanAbsoluteError<msstream::detail::AnyRuntime> {
 public:
  struct Options {
    std::string name = "mae";  ///< in reports and checkpoints
  };
  [[nodiscard]] static detail::AnyMetric make(detail::AnyDevice const& device,
                                              Options const& options,
                                              std::source_location issued_at);
};

template <Runtime R>
class MeanAbsoluteError : public Metric<R> {
 public:
  using Options = typename MeanAbsoluteError<msstream::detail::AnyRuntime>::Options;

  /// Makes a metric without examples.
  explicit MeanAbsoluteError(Device<R> const& device,
                             Options const& options = {},
                             std::source_location issued_at = std::source_location::current())
      : Metric<R>(MeanAbsoluteError<msstream::detail::AnyRuntime>::make(
            device.engine(), options, issued_at)) {}
};

}  // namespace msstream::metrics
