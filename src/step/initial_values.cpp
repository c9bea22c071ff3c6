// SPDX-License-Identifier: Apache-2.0
#include "step/initial_values.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
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
          "inputs, outputs]; for another shape, pass one such as init::zeros()",
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
  return initializer.gain *
         (by_inputs ? 1.0 / std::sqrt(fans.inputs) : std::sqrt(2.0 / (fans.inputs + fans.outputs)));
}

void require_at_least_0(char const* what, float number, std::string const& name) {
  require(number >= 0.0F,
          "Parameters: \"{}\" has an initializer with the {} {}; expected at least 0",
          name,
          what,
          number);
}

void require_finite(Initializer const& initializer, std::string const& name) {
  auto const& [kind, value, low, high, mean, deviation, gain] = initializer;
  bool const is_finite = std::ranges::all_of(std::array{value, low, high, mean, deviation, gain},
                                             [](float number) { return std::isfinite(number); });
  require(is_finite,
          "Parameters: \"{}\" has the initializer {}; expected finite numbers",
          name,
          to_string(initializer));
}

}  // namespace

std::string to_string(Initializer const& initializer) {
  auto const& [kind, value, low, high, mean, deviation, gain] = initializer;
  switch (kind) {
    case Kind::constant:
      return fmt::format("constant({})", value);
    case Kind::uniform:
      return fmt::format("uniform({}, {})", low, high);
    case Kind::normal:
      return fmt::format("normal({}, {})", mean, deviation);
    case Kind::truncated_normal:
      return fmt::format("truncated_normal({}, {})", mean, deviation);
    case Kind::uniform_by_fan_in:
      return fmt::format("he_uniform({})", gain);
    case Kind::normal_by_fan_in:
      return fmt::format("he_normal({})", gain);
    case Kind::uniform_by_fan_sum:
      return fmt::format("xavier_uniform({})", gain);
    case Kind::normal_by_fan_sum:
      return fmt::format("xavier_normal({})", gain);
  }
  return "of an unknown kind";
}

void fill_with_initial_values(AnyTensor const& parameter,
                              Initializer const& initializer,
                              RandomKey const& key,
                              std::string const& name,
                              std::source_location issued_at) {
  fill_with_initial_values(parameter, parameter.shape(), {}, initializer, key, name, issued_at);
}

void fill_with_initial_values(AnyTensor const& parameter,
                              Shape const& whole,
                              ops::detail::MatrixBlock const& block,
                              Initializer const& initializer,
                              RandomKey const& key,
                              std::string const& name,
                              std::source_location issued_at) {
  require_finite(initializer, name);
  auto const& [kind, value, low, high, mean, deviation, gain] = initializer;
  switch (kind) {
    case Kind::constant:
      return ops::detail::fill_uniform(parameter, key, value, value, issued_at, block);
    case Kind::uniform:
      require(low <= high,
              "Parameters: \"{}\" has an initializer with the bounds {} and {}; expected them "
              "ascending",
              name,
              low,
              high);
      return ops::detail::fill_uniform(parameter, key, low, high, issued_at, block);
    case Kind::normal:
      require_at_least_0("standard deviation", deviation, name);
      return ops::detail::fill_normal(parameter, key, mean, deviation, issued_at, block);
    case Kind::truncated_normal:
      require(deviation > 0.0F,
              "Parameters: \"{}\" has an initializer with the standard deviation {}; expected more "
              "than 0",
              name,
              deviation);
      return ops::detail::fill_truncated_normal(parameter,
                                                key,
                                                mean,
                                                deviation,
                                                mean - 2 * deviation,
                                                mean + 2 * deviation,
                                                issued_at,
                                                block);
    case Kind::uniform_by_fan_in:
    case Kind::uniform_by_fan_sum: {
      require_at_least_0("gain", gain, name);
      auto const limit =
          static_cast<float>(std::sqrt(3.0) * deviation_of(initializer, fans_of(whole, name)));
      return ops::detail::fill_uniform(parameter, key, -limit, limit, issued_at, block);
    }
    case Kind::normal_by_fan_in:
    case Kind::normal_by_fan_sum:
      require_at_least_0("gain", gain, name);
      return ops::detail::fill_normal(
          parameter,
          key,
          0.0F,
          static_cast<float>(deviation_of(initializer, fans_of(whole, name))),
          issued_at,
          block);
  }
  throw_invalid_argument(
      fmt::format("Parameters: \"{}\" has an initializer of an unknown kind", name));
}

}  // namespace msstream::detail
