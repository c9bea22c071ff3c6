// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_math.hpp"
#include "metrics/metric_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/metrics/mean.hpp>

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
enum class Quotient : std::uint8_t { per_weight, root_per_weight, per_entropy, per_positive };

struct SumsOptions {
  kernels::MetricKind kind;
  Quotient quotient;
  std::string sum;  ///< the name of what is summed; equal for metrics that can be merged
  Input input = Input::logits;
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
            SumsOptions options,
            std::source_location issued_at)
      : MetricState(device.state(), std::move(name), 0, issued_at), options_(std::move(options)) {}

  [[nodiscard]] std::optional<double> value(std::source_location issued_at) const override {
    bool const takes_any = kernels::is_mean(options_.kind);
    Faults faults;
    if (takes_any) {
      faults.scores =
          "examples since the last reset() have scores that are not finite, or terms of 2^64 or "
          "more";
      faults.labels = "examples since the last reset() have labels that are not finite";
    }
    auto const tally = read(issued_at, faults).tally;
    require_exact(tally, takes_any ? 31 : 32);
    double const terms = takes_any ? kernels::signed_value_of(tally.at)
                                   : kernels::value_of(tally.at + kernels::Tally::terms);
    double const weights = kernels::value_of(tally.at + kernels::Tally::weights);
    double const positives =
        takes_any ? 0.0 : kernels::value_of(tally.at + kernels::Tally::positives);
    switch (options_.quotient) {
      case Quotient::per_weight:
        return quotient(terms, weights);
      case Quotient::root_per_weight:
        return weights > 0.0 ? std::optional(std::sqrt(terms / weights)) : std::nullopt;
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
  [[nodiscard]] std::int64_t rows_of(AnyBatch const& batch) const override {
    return options_.kind == kernels::MetricKind::mean ? batch.scores.count()
                                                      : MetricState::rows_of(batch);
  }
  void complete(kernels::MetricUpdate& update, AnyBatch const&) const override {
    if (options_.kind == kernels::MetricKind::mean) {
      update.labels = nullptr;
    }
    update.kind = options_.kind;
    update.are_probabilities = options_.input == Input::probabilities;
    update.bound = options_.bound;
    update.threshold = options_.threshold;
  }
  [[nodiscard]] Sum sum() const override { return {options_.sum}; }

  SumsOptions options_;
};

[[nodiscard]] char const* word(Input input) {
  return input == Input::probabilities ? "probabilities" : "logits";
}

[[nodiscard]] AnyMetric make_sums(AnyDevice const& device,
                                  std::string const& name,
                                  SumsOptions options,
                                  std::source_location issued_at) {
  return AnyMetric(std::make_shared<SumsState>(device, name, std::move(options), issued_at));
}

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
  double const bound = are_logits ? std::log1p(-least) - std::log(least) : least;
  char const* const what = quotient == Quotient::per_entropy ? "the entropy" : "the log loss";
  return make_sums(device,
                   name,
                   {.kind = kernels::MetricKind::loss,
                    .quotient = quotient,
                    .sum = fmt::format("{} of {} within {}", what, word(input), bound),
                    .input = input,
                    .bound = bound},
                   issued_at);
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
  return detail::make_sums(
      device,
      options.name,
      {.kind = ops::kernels::MetricKind::calibration,
       .quotient = detail::Quotient::per_positive,
       .sum = fmt::format("the calibration of {}", detail::word(options.input)),
       .input = options.input},
      issued_at);
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
  auto const rounded = static_cast<float>(of_scores);
  return detail::make_sums(
      device,
      options.name,
      {.kind = ops::kernels::MetricKind::accuracy,
       .quotient = detail::Quotient::per_weight,
       .sum = fmt::format("the accuracy of {} at {}", detail::word(options.input), rounded),
       .input = options.input,
       .threshold = rounded},
      issued_at);
}

detail::AnyMetric Mean<AnyRuntime>::make(detail::AnyDevice const& device,
                                         Options const& options,
                                         std::source_location issued_at) {
  return detail::make_sums(device,
                           options.name,
                           {.kind = ops::kernels::MetricKind::mean,
                            .quotient = detail::Quotient::per_weight,
                            .sum = "the mean"},
                           issued_at);
}

detail::AnyMetric MeanSquaredError<AnyRuntime>::make(detail::AnyDevice const& device,
                                                     Options const& options,
                                                     std::source_location issued_at) {
  return detail::make_sums(device,
                           options.name,
                           {.kind = ops::kernels::MetricKind::squared_error,
                            .quotient = options.squared ? detail::Quotient::per_weight
                                                        : detail::Quotient::root_per_weight,
                            .sum = "the squared error"},
                           issued_at);
}

detail::AnyMetric MeanAbsoluteError<AnyRuntime>::make(detail::AnyDevice const& device,
                                                      Options const& options,
                                                      std::source_location issued_at) {
  return detail::make_sums(device,
                           options.name,
                           {.kind = ops::kernels::MetricKind::absolute_error,
                            .quotient = detail::Quotient::per_weight,
                            .sum = "the absolute error"},
                           issued_at);
}

}  // namespace msstream::metrics
