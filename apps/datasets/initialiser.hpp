// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/counter_random.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace msstream::datasets {

/// Generates initial values by name, so that a parameter has the same values whichever tensor it is
/// a part of.
class Initialiser {
 public:
  explicit Initialiser(std::uint64_t seed) : seed_(seed) {}

  /// Appends `count` values, uniform in [-limit, limit), which depend on the seed and the name.
  void append(std::vector<float>& to,
              std::string_view name,
              std::int64_t count,
              double limit) const {
    auto const stream = std::hash<std::string_view>{}(name);
    for (std::int64_t i = 0; i < count; ++i) {
      double const unit = uniform_of(random_bits(seed_, stream, static_cast<std::uint64_t>(i)));
      to.push_back(static_cast<float>(limit * (2.0 * unit - 1.0)));
    }
  }
  void append_table(std::vector<float>& to, std::int64_t field, std::int64_t count) const {
    append(to, fmt::format("table/{}", field), count, 0.05);
  }
  /// Appends the values of a weight matrix, with the limit of Glorot & Bengio 2010, eq. 16.
  void append_weight(std::vector<float>& to,
                     std::string_view name,
                     std::int64_t inputs,
                     std::int64_t outputs) const {
    append(to, name, inputs * outputs, std::sqrt(6.0 / static_cast<double>(inputs + outputs)));
  }

 private:
  std::uint64_t seed_;
};

}  // namespace msstream::datasets
