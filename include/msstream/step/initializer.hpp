// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream {

/// The distribution of a parameter's first values. The functions of the namespace init make one.
struct Initializer {
  enum class Kind : std::uint8_t {
    constant,            ///< `first` everywhere
    uniform,             ///< uniform in [first, second]
    normal,              ///< mean `first`, standard deviation `second`
    truncated_normal,    ///< as normal, without values beyond two standard deviations
    uniform_by_fan_in,   ///< uniform, of standard deviation first / sqrt(inputs)
    normal_by_fan_in,    ///< normal, of standard deviation first / sqrt(inputs)
    uniform_by_fan_sum,  ///< uniform, of standard deviation first * sqrt(2 / (inputs + outputs))
    normal_by_fan_sum,   ///< normal, of standard deviation first * sqrt(2 / (inputs + outputs))
  };
  Kind kind = Kind::constant;
  float first = 0.0F;
  float second = 0.0F;
};

/// Initializers. Those by fan-in and fan-sum are for weights of shape [inputs, outputs], or
/// [layers, inputs, outputs] for several layers in one tensor.
namespace init {

[[nodiscard]] constexpr Initializer constant(float value) noexcept {
  return {Initializer::Kind::constant, value, 0.0F};
}
[[nodiscard]] constexpr Initializer zeros() noexcept {
  return constant(0.0F);
}
[[nodiscard]] constexpr Initializer ones() noexcept {
  return constant(1.0F);
}
/// Uniform in [low, high].
[[nodiscard]] constexpr Initializer uniform(float low, float high) noexcept {
  return {Initializer::Kind::uniform, low, high};
}
[[nodiscard]] constexpr Initializer normal(float mean = 0.0F,
                                           float standard_deviation = 1.0F) noexcept {
  return {Initializer::Kind::normal, mean, standard_deviation};
}
/// Normal without the values beyond two standard deviations from the mean. `standard_deviation` is
/// that of the distribution before it is cut off.
[[nodiscard]] constexpr Initializer truncated_normal(float mean = 0.0F,
                                                     float standard_deviation = 1.0F) noexcept {
  return {Initializer::Kind::truncated_normal, mean, standard_deviation};
}
/// Uniform in [-a, a], a = gain * sqrt(6 / (inputs + outputs)) (Glorot & Bengio 2010, eq. 16).
[[nodiscard]] constexpr Initializer xavier_uniform(float gain = 1.0F) noexcept {
  return {Initializer::Kind::uniform_by_fan_sum, gain, 0.0F};
}
/// Normal, of standard deviation gain * sqrt(2 / (inputs + outputs)) (Glorot & Bengio 2010).
[[nodiscard]] constexpr Initializer xavier_normal(float gain = 1.0F) noexcept {
  return {Initializer::Kind::normal_by_fan_sum, gain, 0.0F};
}
/// Uniform in [-a, a], a = gain * sqrt(3 / inputs). The gain of relu is sqrt(2) (He et al. 2015,
/// eq. 10).
[[nodiscard]] constexpr Initializer he_uniform(float gain = 1.41421356F) noexcept {
  return {Initializer::Kind::uniform_by_fan_in, gain, 0.0F};
}
/// Normal, of standard deviation gain / sqrt(inputs). The gain of relu is sqrt(2) (He et al. 2015,
/// eq. 10).
[[nodiscard]] constexpr Initializer he_normal(float gain = 1.41421356F) noexcept {
  return {Initializer::Kind::normal_by_fan_in, gain, 0.0F};
}

}  // namespace init
}  // namespace msstream
