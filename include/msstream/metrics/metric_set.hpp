// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/metrics/metric.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics {

/// Metrics of one model output that are updated in one launch:
///
///     Auc auc(device, {.capacity = 100'000});
///     MetricSet metrics(auc, LogLoss(device), Calibration(device));
///     metrics.update(logits, labels);  // each step, or captured once
///     for (auto const& [name, value] : metrics.values()) …
///
/// Shares the state of the metrics that it is made from. Copies share it too.
template <Runtime R = DefaultRuntime>
class MetricSet {
 public:
  using runtime_type = R;

  /// Throws std::invalid_argument if two metrics have the same name.
  template <std::derived_from<Metric<R>>... Metrics>
  explicit MetricSet(Metrics const&... metrics) : metrics_{metrics.any()...} {
    detail::require_names(metrics_);
  }

  /// Adds one example per element of `scores` and `labels` to all metrics. One launch for each 16
  /// metrics. Throws what Metric::update() throws.
  void update(Tensor<float, R> const& scores,
              Tensor<float, R> const& labels,
              std::source_location issued_at = std::source_location::current()) const {
    update(Batch<R>{.scores = scores, .labels = labels}, issued_at);
  }
  void update(Batch<R> const& batch,
              std::source_location issued_at = std::source_location::current()) const {
    detail::update_metrics({with(batch)}, issued_at);
  }
  /// Returns an argument of metrics::update(), which adds several batches in one launch.
  [[nodiscard]] Update with(Batch<R> const& batch) const { return {metrics_, batch}; }

  /// Returns the name and the value of each metric, in the order in which the set was made. Blocks
  /// the host like Metric::value(). If metrics throw std::invalid_argument or std::length_error,
  /// throws an error of the type of the first; its message has the messages of all of them, and
  /// the values of the others.
  [[nodiscard]] std::vector<std::pair<std::string, std::optional<double>>> values(
      std::source_location issued_at = std::source_location::current()) const {
    return detail::values_of(metrics_, issued_at);
  }
  /// Passes the states of all metrics to `visit`, as Metric::visit_state() does.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    for (auto const& metric : metrics_) {
      detail::visit_metric<R>(metric, visit);
    }
  }
  /// Resets all metrics.
  void reset(std::source_location issued_at = std::source_location::current()) const {
    for (auto const& metric : metrics_) {
      metric.reset(issued_at);
    }
  }

 private:
  std::vector<detail::AnyMetric> metrics_;
};

template <class First, class... Rest>
MetricSet(First const&, Rest const&...) -> MetricSet<typename First::runtime_type>;

}  // namespace msstream::metrics
