// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstdint>

namespace msstream {

/// The distribution of a parameter's first values. The functions of the namespace init make one.
struct Initializer {
  /// The distribution, with the members that it uses; the others have no effect.
  enum class Kind : std::uint8_t {
    constant,            ///< `value` everywhere
    uniform,             ///< uniform in [low, high]
    normal,              ///< of `mean` and `standard_deviation`
    truncated_normal,    ///< as normal, without values beyond two standard deviations
    uniform_by_fan_in,   ///< uniform, of standard deviation gain / sqrt(inputs)
    normal_by_fan_in,    ///< normal, of standard deviation gain / sqrt(inputs)
    uniform_by_fan_sum,  ///< uniform, of standard deviation gain * sqrt(2 / (inputs + outputs))
    normal_by_fan_sum,   ///< normal, of standard deviation gain * sqrt(2 / (inputs + outputs))
  };
  Kind kind = Kind::constant;       ///< the distribution
  float value = 0.0F;               ///< of constant
  float low = 0.0F;                 ///< of uniform: the least value
  float high = 0.0F;                ///< of uniform: the largest value
  float mean = 0.0F;                ///< of normal and truncated_normal
  float standard_deviation = 0.0F;  ///< of normal and truncated_normal
  float gain = 0.0F;                ///< of the kinds by fan-in and fan-sum

  friend bool operator==(Initializer const&, Initializer const&) = default;
};

/// Initializers. Those by fan-in and fan-sum are for weights of shape [inputs, outputs], or
/// [layers, inputs, outputs] for several layers in one tensor.
namespace init {

/// Every element is `value`.
[[nodiscard]] constexpr Initializer constant(float value) noexcept {
  return {.kind = Initializer::Kind::constant, .value = value};
}
/// Every element is 0, as for biases.
[[nodiscard]] constexpr Initializer zeros() noexcept {
  return constant(0.0F);
}
/// Every element is 1, as for the weights of a norm.
[[nodiscard]] constexpr Initializer ones() noexcept {
  return constant(1.0F);
}
/// Uniform in [low, high].
[[nodiscard]] constexpr Initializer uniform(float low, float high) noexcept {
  return {.kind = Initializer::Kind::uniform, .low = low, .high = high};
}
/// Normal, of this mean and this standard deviation.
[[nodiscard]] constexpr Initializer normal(float mean = 0.0F,
                                           float standard_deviation = 1.0F) noexcept {
  return {
      .kind = Initializer::Kind::normal, .mean = mean, .standard_deviation = standard_deviation};
}
/// Normal without the values beyond two standard deviations from the mean. `standard_deviation` is
/// that of the distribution before it is cut off.
[[nodiscard]] constexpr Initializer truncated_normal(float mean = 0.0F,
                                                     float standard_deviation = 1.0F) noexcept {
  return {.kind = Initializer::Kind::truncated_normal,
          .mean = mean,
          .standard_deviation = standard_deviation};
}
/// Uniform in [-a, a], a = gain * sqrt(6 / (inputs + outputs)) (Glorot & Bengio 2010, eq. 16).
[[nodiscard]] constexpr Initializer xavier_uniform(float gain = 1.0F) noexcept {
  return {.kind = Initializer::Kind::uniform_by_fan_sum, .gain = gain};
}
/// Normal, of standard deviation gain * sqrt(2 / (inputs + outputs)) (Glorot & Bengio 2010).
[[nodiscard]] constexpr Initializer xavier_normal(float gain = 1.0F) noexcept {
  return {.kind = Initializer::Kind::normal_by_fan_sum, .gain = gain};
}
/// Uniform in [-a, a], a = gain * sqrt(3 / inputs). The gain of relu is sqrt(2) (He et al. 2015,
/// eq. 10).
[[nodiscard]] constexpr Initializer he_uniform(float gain = 1.41421356F) noexcept {
  return {.kind = Initializer::Kind::uniform_by_fan_in, .gain = gain};
}
/// Normal, of standard deviation gain / sqrt(inputs). The gain of relu is sqrt(2) (He et al. 2015,
/// eq. 10).
[[nodiscard]] constexpr Initializer he_normal(float gain = 1.41421356F) noexcept {
  return {.kind = Initializer::Kind::normal_by_fan_in, .gain = gain};
}

}  // namespace init
}  // namespace msstream
