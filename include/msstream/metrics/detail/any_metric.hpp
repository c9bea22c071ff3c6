// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>
#include <msstream/metrics/batch.hpp>

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

/// The implementation of Metric<R>, compiled once for all metrics and runtimes; Metric documents
/// the functions. Copies share the state.
class AnyMetric {
 public:
  explicit AnyMetric(std::shared_ptr<MetricState> state) : state_(std::move(state)) {}

  [[nodiscard]] std::string const& name() const noexcept;
  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const;
  void reset(std::source_location issued_at) const;
  void merge(AnyMetric const& other, std::source_location issued_at) const;
  [[nodiscard]] MetricState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<MetricState> state_;
};

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
