// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_math.hpp"
#include "metrics/metric_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>

// The metrics whose state is sums over examples.
namespace msstream::metrics {
namespace detail {
namespace {

/// Which sum a metric divides by which.
enum class Quotient : std::uint8_t { per_weight, per_entropy, per_positive };

struct SumsOptions {
  kernels::MetricKind kind;
  Quotient quotient;
  Input input;
  double bound = 0.0;
  float threshold = 0.0F;
};

[[nodiscard]] double entropy(double p) {
  return -(p * std::log(p) + (1.0 - p) * std::log(1.0 - p));
}

class SumsState final : public MetricState {
 public:
  SumsState(AnyDevice const& device,
            std::string name,
            SumsOptions const& options,
            std::source_location issued_at)
      : MetricState(device.state(), std::move(name), 0, issued_at), options_(options) {}

  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const override {
    auto const tally = read(issued_at).tally;
    double const terms = kernels::value_of(tally.at + kernels::Tally::terms);
    double const weights = kernels::value_of(tally.at + kernels::Tally::weights);
    double const positives = kernels::value_of(tally.at + kernels::Tally::positives);
    switch (options_.quotient) {
      case Quotient::per_weight:
        return quotient(terms, weights);
      case Quotient::per_entropy:
        return positives > 0.0 && positives < weights
                   ? quotient(terms / weights, entropy(positives / weights))
                   : std::nullopt;
      case Quotient::per_positive:
        return quotient(terms, positives);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] static std::optional<double> quotient(double dividend, double divisor) {
    return divisor > 0.0 ? std::optional(dividend / divisor) : std::nullopt;
  }
  void complete(kernels::MetricUpdate& update, AnyBatch const&) const override {
    update.kind = options_.kind;
    update.are_probabilities = options_.input == Input::probabilities;
    update.bound = options_.bound;
    update.threshold = options_.threshold;
  }
  [[nodiscard]] Sum sum() const override {
    char const* const what = options_.quotient == Quotient::per_entropy    ? "the entropy"
                             : options_.quotient == Quotient::per_positive ? "the calibration"
                             : options_.kind == kernels::MetricKind::loss  ? "the log loss"
                                                                           : "the accuracy";
    char const* const input = options_.input == Input::probabilities ? "probabilities" : "logits";
    return {options_.kind == kernels::MetricKind::calibration ? fmt::format("{} of {}", what, input)
            : options_.kind == kernels::MetricKind::accuracy
                ? fmt::format("{} of {} at {}", what, input, options_.threshold)
                : fmt::format("{} of {} within {}", what, input, options_.bound)};
  }

  SumsOptions options_;
};

[[nodiscard]] AnyMetric make_loss(AnyDevice const& device,
                                  std::string const& name,
                                  Input input,
                                  std::optional<double> epsilon,
                                  Quotient quotient,
                                  std::source_location issued_at) {
  bool const are_logits = input == Input::logits;
  double const least = epsilon.value_or(are_logits ? 0x1p-52 : 0x1p-23);
  require(least >= 0x1p-60 && least <= 0.25,
          "{}: an epsilon of {}; expected a number in [2^-60, 0.25]",
          name,
          least);
  SumsOptions const options{.kind = kernels::MetricKind::loss,
                            .quotient = quotient,
                            .input = input,
                            .bound = are_logits ? std::log1p(-least) - std::log(least) : least};
  return AnyMetric(std::make_shared<SumsState>(device, name, options, issued_at));
}

}  // namespace
}  // namespace detail

using msstream::detail::AnyRuntime;

detail::AnyMetric LogLoss<AnyRuntime>::make(detail::AnyDevice const& device,
                                            Options const& options,
                                            std::source_location issued_at) {
  return detail::make_loss(device,
                           options.name,
                           options.input,
                           options.epsilon,
                           detail::Quotient::per_weight,
                           issued_at);
}

detail::AnyMetric NormalizedEntropy<AnyRuntime>::make(detail::AnyDevice const& device,
                                                      Options const& options,
                                                      std::source_location issued_at) {
  return detail::make_loss(device,
                           options.name,
                           options.input,
                           options.epsilon,
                           detail::Quotient::per_entropy,
                           issued_at);
}

detail::AnyMetric Calibration<AnyRuntime>::make(detail::AnyDevice const& device,
                                                Options const& options,
                                                std::source_location issued_at) {
  detail::SumsOptions const sums{.kind = ops::kernels::MetricKind::calibration,
                                 .quotient = detail::Quotient::per_positive,
                                 .input = options.input};
  return detail::AnyMetric(
      std::make_shared<detail::SumsState>(device, options.name, sums, issued_at));
}

detail::AnyMetric Accuracy<AnyRuntime>::make(detail::AnyDevice const& device,
                                             Options const& options,
                                             std::source_location issued_at) {
  double const threshold = options.threshold;
  require(threshold > 0.0 && threshold < 1.0,
          "{}: a threshold of {}; expected a probability in (0, 1)",
          options.name,
          threshold);
  double const of_scores =
      options.input == Input::logits ? std::log(threshold) - std::log1p(-threshold) : threshold;
  detail::SumsOptions const sums{.kind = ops::kernels::MetricKind::accuracy,
                                 .quotient = detail::Quotient::per_weight,
                                 .input = options.input,
                                 .threshold = static_cast<float>(of_scores)};
  return detail::AnyMetric(
      std::make_shared<detail::SumsState>(device, options.name, sums, issued_at));
}

}  // namespace msstream::metrics
