// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/required.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace msstream {

/// How a learning rate depends on the number of steps: a factor of the rate, which the device
/// computes from its step counter, so that replays of a captured step follow the schedule.
///
/// The first update is step 0. A warm-up of n steps raises the factor to 1 at step n - 1:
/// from + (1 - from) * ((step + 1) / n)^power. A value.
class Schedule {
 public:
  struct Warmup {
    std::int64_t steps = 0;  ///< [0, infinity)
    float from = 0.0F;       ///< [0, infinity)
    float power = 1.0F;      ///< (0, infinity); 1 is linear
  };
  struct StepDecay {
    detail::Required<std::int64_t> every;  ///< steps, from 1
    float factor = 0.1F;                   ///< [0, infinity)
    Warmup warmup = {0, 0.0F, 1.0F};       ///< before the first decay; none by default
  };
  struct Polynomial {
    detail::Required<std::int64_t> steps;  ///< of warm-up and decay together
    float end = 0.0F;                      ///< the last factor, [0, infinity)
    float power = 1.0F;                    ///< (0, infinity); 1 is linear
    Warmup warmup = {0, 0.0F, 1.0F};       ///< before the decay; none by default
  };
  struct Cosine {
    detail::Required<std::int64_t> steps;  ///< of warm-up and decay together
    float end = 0.0F;                      ///< the last factor, [0, infinity)
    Warmup warmup = {0, 0.0F, 1.0F};       ///< before the decay; none by default
  };

  /// The factor 1 in every step.
  Schedule() = default;
  [[nodiscard]] static Schedule constant() { return {}; }
  /// A warm-up, and then the factor 1. Throws std::invalid_argument, as the functions below do, for
  /// a number that is not in the range of its comment.
  [[nodiscard]] static Schedule constant(Warmup const& warmup);
  /// factor^k after k times `every` steps, counted from the end of the warm-up.
  [[nodiscard]] static Schedule step_decay(StepDecay const& options);
  /// end + (1 - end) * (1 - p)^power, where p goes from 0 at the end of the warm-up to 1 after
  /// `steps` steps, and stays there.
  [[nodiscard]] static Schedule polynomial(Polynomial const& options);
  /// end + (1 - end) * (1 + cos(pi p)) / 2, with p as in polynomial().
  [[nodiscard]] static Schedule cosine(Cosine const& options);
  /// factor(step), called now for the steps 0 to steps - 1, and factor(steps - 1) in all later
  /// steps. Throws std::invalid_argument for factors that are negative, infinite or NaN.
  [[nodiscard]] static Schedule tabulated(std::int64_t steps,
                                          std::function<double(std::int64_t step)> const& factor);

  /// Returns the factor of a step, from 0, as the device computes it.
  [[nodiscard]] double factor(std::int64_t step) const;

  /// The form of a schedule and its numbers, as kernels take them. For use by the library only.
  struct Numbers {
    enum class Form : std::uint8_t { constant, step_decay, polynomial, cosine, tabulated };

    Form form = Form::constant;
    std::int64_t steps = 0;  ///< total, between decays, or in the table
    float end = 0.0F;        ///< last factor, or factor of each decay
    float power = 1.0F;
    std::int64_t warmup_steps = 0;
    float warmup_from = 0.0F;
    float warmup_power = 1.0F;
  };
  /// Returns the form and its numbers. For use by the library only.
  [[nodiscard]] Numbers const& numbers() const noexcept { return numbers_; }
  /// Returns the factors of a tabulated schedule. For use by the library only.
  [[nodiscard]] std::vector<float> const& table() const noexcept { return table_; }

 private:
  Schedule(Numbers::Form form, std::int64_t steps, float end, float power, Warmup const& warmup);

  Numbers numbers_ = {};
  std::vector<float> table_;
};

}  // namespace msstream
