// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "metrics/metric_references.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/metrics/batch.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace msstream::metrics::testing {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns examples whose labels depend on their logits. Scores are multiples of 1 / steps.
inline Examples random_examples(msstream::testing::Random& random,
                                std::int64_t count,
                                float steps,
                                bool weighted) {
  Examples examples;
  for (std::int64_t i = 0; i < count; ++i) {
    float const logit = std::round(random.real(-4.0F, 2.0F) * steps) / steps;
    examples.scores.push_back(logit);
    examples.labels.push_back(random.real(0.0F, 1.0F) < probability(logit) ? 1.0F : 0.0F);
    if (weighted) {
      examples.weights.push_back(random.integer(0, 9) == 0 ? 0.0F : random.real(0.0F, 3.0F));
    }
  }
  return examples;
}

inline Examples with_probabilities(Examples examples) {
  for (auto& score : examples.scores) {
    score = static_cast<float>(probability(score));
  }
  return examples;
}

inline void expect_value(std::optional<double> actual,
                         std::optional<double> expected,
                         double tolerance) {
  ASSERT_EQ(actual.has_value(), expected.has_value());
  if (expected) {
    EXPECT_NEAR(*actual, *expected, tolerance);
  }
}

template <class R>
class MetricsTest : public msstream::testing::OpsTest<R> {
 protected:
  /// Copies examples [begin, end) to the device.
  Batch<R> batch(Examples const& examples, std::size_t begin, std::size_t end) const {
    auto const part = [&](Floats const& values) {
      return this->put(Floats(values.begin() + static_cast<std::ptrdiff_t>(begin),
                              values.begin() + static_cast<std::ptrdiff_t>(end)));
    };
    Batch<R> batch{.scores = part(examples.scores), .labels = part(examples.labels)};
    if (!examples.weights.empty()) {
      batch.weights = part(examples.weights);
    }
    return batch;
  }
  Batch<R> batch(Examples const& examples) const { return batch(examples, 0, examples.count()); }
};

}  // namespace msstream::metrics::testing
