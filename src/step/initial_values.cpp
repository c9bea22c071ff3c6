// SPDX-License-Identifier: Apache-2.0
#include "step/initial_values.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace msstream::detail {
namespace {

using Kind = Initializer::Kind;

/// The numbers of inputs and outputs of a layer whose weights have a shape.
struct Fans {
  double inputs;
  double outputs;
};

Fans fans_of(Shape const& shape, std::string const& name) {
  require(shape.rank() == 2 || shape.rank() == 3,
          "Parameters: \"{}\" of shape {}; its initializer expects [inputs, outputs] or [layers, "
          "inputs, outputs]",
          name,
          shape);
  // A layer without inputs or outputs has no weights, so any positive number will do.
  auto const extent = [&](std::size_t from_end) {
    return std::max(1.0, static_cast<double>(shape[shape.rank() - from_end]));
  };
  return {extent(2), extent(1)};
}

/// Returns the standard deviation of the weights that an initializer by fans gives.
double deviation_of(Initializer const& initializer, Fans const& fans) {
  bool const by_inputs =
      initializer.kind == Kind::uniform_by_fan_in || initializer.kind == Kind::normal_by_fan_in;
  return initializer.first *
         (by_inputs ? 1.0 / std::sqrt(fans.inputs) : std::sqrt(2.0 / (fans.inputs + fans.outputs)));
}

}  // namespace

void fill_with_initial_values(AnyTensor const& parameter,
                              Initializer const& initializer,
                              RandomKey const& key,
                              std::string const& name,
                              std::source_location issued_at) {
  auto const first = initializer.first;
  auto const second = initializer.second;
  require(std::isfinite(first) && std::isfinite(second),
          "Parameters: \"{}\" has an initializer with the numbers {} and {}; expected finite ones",
          name,
          first,
          second);
  auto const require_deviation = [&](float deviation) {
    require(deviation >= 0.0F,
            "Parameters: \"{}\" has an initializer with the {} {}; expected at least 0",
            name,
            initializer.kind == Kind::normal ? "standard deviation" : "gain",
            deviation);
  };
  switch (initializer.kind) {
    case Kind::constant:
      return ops::detail::fill_uniform(parameter, key, first, first, issued_at);
    case Kind::uniform:
      require(first <= second,
              "Parameters: \"{}\" has an initializer with the bounds {} and {}; expected them "
              "ascending",
              name,
              first,
              second);
      return ops::detail::fill_uniform(parameter, key, first, second, issued_at);
    case Kind::normal:
      require_deviation(second);
      return ops::detail::fill_normal(parameter, key, first, second, issued_at);
    case Kind::truncated_normal:
      require(second > 0.0F,
              "Parameters: \"{}\" has an initializer with the standard deviation {}; expected more "
              "than 0",
              name,
              second);
      return ops::detail::fill_truncated_normal(
          parameter, key, first, second, first - 2 * second, first + 2 * second, issued_at);
    case Kind::uniform_by_fan_in:
    case Kind::uniform_by_fan_sum: {
      require_deviation(first);
      auto const limit = static_cast<float>(
          std::sqrt(3.0) * deviation_of(initializer, fans_of(parameter.shape(), name)));
      return ops::detail::fill_uniform(parameter, key, -limit, limit, issued_at);
    }
    case Kind::normal_by_fan_in:
    case Kind::normal_by_fan_sum:
      require_deviation(first);
      return ops::detail::fill_normal(
          parameter,
          key,
          0.0F,
          static_cast<float>(deviation_of(initializer, fans_of(parameter.shape(), name))),
          issued_at);
  }
  throw_invalid_argument(
      fmt::format("Parameters: \"{}\" has an initializer of an unknown kind", name));
}

}  // namespace msstream::detail
