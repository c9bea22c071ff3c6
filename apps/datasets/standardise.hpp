// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/dataset.hpp"

#include <msstream/base/detail/require.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msstream::datasets {

/// The mean and the standard deviation of every continuous field. They belong to a model: inputs in
/// serving must be transformed as in training.
struct Standardisation {
  std::vector<float> mean;
  std::vector<float> deviation;  ///< 1 for a constant field, whose values become 0
};

/// Computes the mean and the standard deviation of each continuous field over `rows` only:
/// statistics that include the held-out rows would make the model look better than it is.
[[nodiscard]] inline Standardisation fit_standardisation(Dataset const& dataset,
                                                         std::span<std::int64_t const> rows) {
  require(!rows.empty(), "standardisation: there are no rows to fit on");
  std::size_t const fields = dataset.schema().continuous.size();
  auto const count = static_cast<double>(rows.size());
  std::vector<double> mean(fields);
  std::vector<double> squares(fields);
  for (auto const row : rows) {
    for (std::size_t i = 0; i < fields; ++i) {
      mean[i] += static_cast<double>(dataset.continuous(row)[i]) / count;
    }
  }
  // Uses a second pass: the usual difference of sums would cancel if the mean is far from 0.
  for (auto const row : rows) {
    for (std::size_t i = 0; i < fields; ++i) {
      double const distance = static_cast<double>(dataset.continuous(row)[i]) - mean[i];
      squares[i] += distance * distance;
    }
  }
  Standardisation fitted;
  for (std::size_t i = 0; i < fields; ++i) {
    double const deviation = std::sqrt(squares[i] / count);
    bool const constant = deviation <= 1e-6 * std::abs(mean[i]) || deviation == 0;
    fitted.mean.push_back(static_cast<float>(mean[i]));
    fitted.deviation.push_back(constant ? 1.0F : static_cast<float>(deviation));
  }
  return fitted;
}

/// Replaces every continuous value x by (x - mean) / deviation. Throws std::invalid_argument if the
/// fields do not match.
inline void standardise(Dataset& dataset, Standardisation const& fitted) {
  std::size_t const fields = dataset.schema().continuous.size();
  require(fitted.mean.size() == fields && fitted.deviation.size() == fields,
          "standardisation: fitted on {} continuous fields, applied to {}",
          fitted.mean.size(),
          fields);
  auto const values = dataset.continuous_values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (values[i] - fitted.mean[i % fields]) / fitted.deviation[i % fields];
  }
}

}  // namespace msstream::datasets
