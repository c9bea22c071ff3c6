// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <msstream/ops/schedule.hpp>

#include <cmath>
#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the factor of the learning rate in a step, from 0. `table` has the factors of a
/// tabulated schedule. Computed in float64.
MSSTREAM_HOST_DEVICE inline double schedule_factor(Schedule::Numbers const& numbers,
                                                   float const* table,
                                                   std::int64_t step) {
  using Form = Schedule::Numbers::Form;
  if (numbers.form == Form::tabulated) {
    return static_cast<double>(table[step < numbers.steps ? step : numbers.steps - 1]);
  }
  if (step < numbers.warmup_steps) {
    auto const share = static_cast<double>(step + 1) / static_cast<double>(numbers.warmup_steps);
    auto const from = static_cast<double>(numbers.warmup_from);
    auto const risen = numbers.warmup_power == 1.0F
                           ? share
                           : std::pow(share, static_cast<double>(numbers.warmup_power));
    return from + (1.0 - from) * risen;
  }
  if (numbers.form == Form::constant) {
    return 1.0;
  }
  auto const decaying = step - numbers.warmup_steps;
  auto const end = static_cast<double>(numbers.end);
  if (numbers.form == Form::step_decay) {
    return std::pow(end, static_cast<double>(decaying / numbers.steps));
  }
  auto const length = numbers.steps - numbers.warmup_steps;
  auto const left =
      decaying < length ? 1.0 - static_cast<double>(decaying) / static_cast<double>(length) : 0.0;
  if (numbers.form == Form::cosine) {
    constexpr double kPi = 3.14159265358979323846;
    return end + (1.0 - end) * 0.5 * (1.0 + std::cos(kPi * (1.0 - left)));
  }
  auto const fallen = numbers.power == 1.0F || left == 0.0
                          ? left
                          : std::pow(left, static_cast<double>(numbers.power));
  return end + (1.0 - end) * fallen;
}

}  // namespace msstream::ops::kernels
