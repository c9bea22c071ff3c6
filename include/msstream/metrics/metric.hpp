// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/metrics/batch.hpp>
#include <msstream/metrics/detail/any_metric.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/tensor.hpp>

#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics {

/// A batch, and the metrics to which metrics::update() adds it; made by Metric::with() and
/// MetricSet::with().
using Update = detail::AnyUpdate;

/// A metric of all examples that were added since it was made or reset: the base of Auc, LogLoss
/// and the other metrics, whose state is in device memory. Copies share the state.
///
/// An update is an operation like any other: asynchronous, ordered by the uses of its tensors, and
/// captured in a CapturedStep, whose replays then update the metric. The host reads nothing until
/// value(). The state is a sum of integers, so a value has the same bits on every runtime, for
/// every number of stream groups, captured or not, and however the examples were divided into
/// batches.
///
/// NaN scores, probabilities outside [0, 1], labels outside [0, 1], weights outside [0, 2^26] and
/// wrong offsets are counted on the device, and reported by value(). Examples of weight 0 do not
/// count at all, whatever their other numbers are.
template <Runtime R = DefaultRuntime>
class Metric {
 public:
  using runtime_type = R;

  /// Adds one example per element of `scores` and `labels`. One launch. Throws
  /// std::invalid_argument, without any effect, for tensors of different counts or of another
  /// device, and for a batch that lacks what the metric needs or has weights that it does not take;
  /// and std::length_error, also without effect, if the batch exceeds the metric's capacity. The
  /// host knows that for updates outside captures, with batches without a `count`, if no reset()
  /// was captured; value() reports all other examples beyond the capacity.
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
  [[nodiscard]] Update with(Batch<R> const& batch) const { return {{any_}, batch}; }

  /// Returns the metric of all examples so far; empty if it is undefined for them, as an AUC is
  /// without examples of both classes. Blocks the host until the updates so far are complete.
  /// Throws std::invalid_argument if examples had bad scores, labels or weights, with their number,
  /// and std::length_error if there were more examples than the metric's capacity, or than its sums
  /// hold, 2^32; both until reset(). Throws std::logic_error in a capture.
  [[nodiscard]] std::optional<double> value(
      std::source_location issued_at = std::source_location::current()) const {
    return any_.value(issued_at);
  }
  /// Adds all examples of another metric of the same kind, with equal options and on the same
  /// device, which stays as it is. The values of parts that are merged have the bits of the value
  /// of one whole. Asynchronous; capture-safe. Throws std::invalid_argument for other metrics, for
  /// metrics that keep their examples (Auc, GroupedAuc), and for a BucketedAuc without
  /// Options::sample and Options::centre.
  void merge(Metric const& other,
             std::source_location issued_at = std::source_location::current()) const {
    any_.merge(other.any_, issued_at);
  }
  /// Forgets all examples. Asynchronous; capture-safe.
  void reset(std::source_location issued_at = std::source_location::current()) const {
    any_.reset(issued_at);
  }

  /// Passes to `visit` everything that a later run needs to go on with the examples so far:
  /// `visit(name, tensor)` receives tensors of int64, and of the metrics that keep their examples
  /// also of float32 and uint8, named `metrics/<name of the metric>/…`. A checkpoint::Tensors also
  /// gets the kind and the options, which a file must have too: see docs/checkpoints.md. After a
  /// load, the host does not know the number of examples until reset(), so that value() reports
  /// those beyond a capacity.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    detail::visit_metric<R>(any_, visit);
  }

  /// Returns the name in reports, in MetricSet::values() and in checkpoints.
  [[nodiscard]] std::string const& name() const noexcept { return any_.name(); }
  [[nodiscard]] detail::AnyMetric const& any() const noexcept { return any_; }

 protected:
  explicit Metric(detail::AnyMetric any) : any_(std::move(any)) {}

 private:
  detail::AnyMetric any_;
};

/// Adds several batches, each to metrics of its own, in one launch for each 16 metrics:
///
///     metrics::update({clicks.with({.scores = p, .labels = y}), orders.with(…)});
///
/// Throws std::invalid_argument, without any effect, for what Metric::update() rejects, and for a
/// metric that occurs twice.
inline void update(std::vector<Update> const& updates,
                   std::source_location issued_at = std::source_location::current()) {
  detail::update_metrics(updates, issued_at);
}

}  // namespace msstream::metrics
