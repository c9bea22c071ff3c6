// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/memory/detail/any_device.hpp>
#include <msstream/metrics/batch.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics::detail {

using msstream::detail::AnyDevice;
using msstream::detail::AnyRuntime;

class MetricState;

/// A tensor of the state of a metric, with the name that it has in a checkpoint.
struct StateTensor {
  std::string name;
  msstream::detail::AnyTensor tensor;
};

/// The implementation of Metric<R>, compiled once for all metrics and runtimes; Metric documents
/// the functions. Copies share the state.
class AnyMetric {
 public:
  explicit AnyMetric(std::shared_ptr<MetricState> state) : state_(std::move(state)) {}

  [[nodiscard]] std::string const& name() const noexcept;
  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const;
  void reset(std::source_location issued_at) const;
  void merge(AnyMetric const& other, std::source_location issued_at) const;
  /// Returns the tensors of the state.
  [[nodiscard]] std::vector<StateTensor> tensors() const;
  /// Returns the name of the kind with its options, which a checkpoint saves and compares.
  [[nodiscard]] std::shared_ptr<msstream::detail::HostState> saved_kind() const;
  /// Returns a check of a list of tensors, by which the metric learns that it is loaded.
  [[nodiscard]] msstream::detail::SourceCheck check_of_list() const;
  [[nodiscard]] MetricState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<MetricState> state_;
};

/// Implements Metric<R>::visit_state().
template <Runtime R, class Visit>
void visit_metric(AnyMetric const& metric, Visit&& visit) {
  for (auto const& [name, tensor] : metric.tensors()) {
    if (tensor.dtype() == DType::int64) {
      visit(name, Tensor<std::int64_t, R>(msstream::detail::OfKnownType(), tensor));
    } else if (tensor.dtype() == DType::uint8) {
      visit(name, Tensor<std::uint8_t, R>(msstream::detail::OfKnownType(), tensor));
    } else {
      visit(name, Tensor<float, R>(msstream::detail::OfKnownType(), tensor));
    }
  }
  if constexpr (msstream::detail::TakesHostState<Visit>) {
    visit(std::string(), metric.saved_kind());
    visit(metric.check_of_list());
  }
}

/// A batch, and the metrics that it is added to.
struct AnyUpdate {
  std::vector<AnyMetric> metrics;
  Batch<AnyRuntime> batch;
};
/// The implementation of update() and of all members of that name.
void update_metrics(std::vector<AnyUpdate> const& updates, std::source_location issued_at);
using MetricValues = std::vector<std::pair<std::string, std::optional<double>>>;
/// The implementation of MetricSet::values().
[[nodiscard]] MetricValues values_of(std::vector<AnyMetric> const& metrics,
                                     std::source_location issued_at);
/// Throws std::invalid_argument if two of the metrics have the same name.
void require_names(std::vector<AnyMetric> const& metrics);

}  // namespace msstream::metrics::detail
