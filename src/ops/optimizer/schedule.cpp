// SPDX-License-Identifier: Apache-2.0
#include "optimizer/schedule_math.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/schedule.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace msstream {
namespace {

[[nodiscard]] bool is_finite(double value) {
  return value >= 0.0 && std::isfinite(value);
}

void require_number(char const* name, float value, bool within, char const* range) {
  require(within, "Schedule: {} of {}; expected a number in {}", name, value, range);
}

void require_power(char const* name, float power) {
  require_number(name, power, power > 0.0F && std::isfinite(power), "(0, infinity)");
}

}  // namespace

Schedule::Schedule(
    Numbers::Form form, std::int64_t steps, float end, float power, Warmup const& warmup)
    : numbers_{form, steps, end, power, warmup.steps, warmup.from, warmup.power} {
  require(warmup.steps >= 0, "Schedule: a warm-up of {} steps; expected 0 or more", warmup.steps);
  require_number("warm-up from", warmup.from, is_finite(warmup.from), "[0, infinity)");
  require_power("warm-up power", warmup.power);
  bool const decays = form == Numbers::Form::polynomial || form == Numbers::Form::cosine;
  require(!decays || steps > warmup.steps,
          "Schedule: {} steps with a warm-up of {}; expected more steps than the warm-up has",
          steps,
          warmup.steps);
}

Schedule Schedule::constant(Warmup const& warmup) {
  return {Numbers::Form::constant, 0, 0.0F, 1.0F, warmup};
}

Schedule Schedule::step_decay(StepDecay const& options) {
  require(options.every >= 1,
          "Schedule: a decay every {} steps; expected 1 or more",
          static_cast<std::int64_t>(options.every));
  require_number("factor", options.factor, is_finite(options.factor), "[0, infinity)");
  return {Numbers::Form::step_decay, options.every, options.factor, 1.0F, options.warmup};
}

Schedule Schedule::polynomial(Polynomial const& options) {
  require_number("end", options.end, is_finite(options.end), "[0, infinity)");
  require_power("power", options.power);
  return {Numbers::Form::polynomial, options.steps, options.end, options.power, options.warmup};
}

Schedule Schedule::cosine(Cosine const& options) {
  require_number("end", options.end, is_finite(options.end), "[0, infinity)");
  return {Numbers::Form::cosine, options.steps, options.end, 1.0F, options.warmup};
}

Schedule Schedule::tabulated(std::int64_t steps,
                             std::function<double(std::int64_t step)> const& factor) {
  require(steps >= 1, "Schedule: a table of {} steps; expected 1 or more", steps);
  require(factor != nullptr, "Schedule: a table without a function");
  Schedule schedule(Numbers::Form::tabulated, steps, 0.0F, 1.0F, {});
  schedule.table_.reserve(static_cast<std::size_t>(steps));
  for (std::int64_t step = 0; step < steps; ++step) {
    auto const value = static_cast<float>(factor(step));
    require(is_finite(value),
            "Schedule: a factor of {} in step {}; expected a number in [0, infinity)",
            value,
            step);
    schedule.table_.push_back(value);
  }
  return schedule;
}

double Schedule::factor(std::int64_t step) const {
  require(step >= 0, "Schedule: the factor of step {}; expected 0 or more", step);
  return ops::kernels::schedule_factor(numbers_, table_.data(), step);
}

}  // namespace msstream
