// SPDX-License-Identifier: Apache-2.0
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace msstream {
namespace {

[[nodiscard]] detail::Floats first_state(std::shared_ptr<detail::DeviceState> const& device,
                                         LossScaleOptions const& options,
                                         std::source_location issued_at) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 24U;  // a float counts no further
  require(options.initial >= 0x1p-100F && options.initial <= 0x1p100F,
          "LossScale: an initial scale of {}; expected a number in [2^-100, 2^100]",
          options.initial);
  require(std::isfinite(options.growth) && options.growth >= 1.0F,
          "LossScale: a growth of {}; expected a finite number of at least 1",
          options.growth);
  require(options.backoff > 0.0F && options.backoff <= 1.0F,
          "LossScale: a backoff of {}; expected a number in (0, 1]",
          options.backoff);
  require(options.interval >= 1 && options.interval <= kMostSteps,
          "LossScale: an interval of {} steps; expected 1 to {}",
          options.interval,
          kMostSteps);
  std::array<float, 2> const state{options.initial, 0.0F};
  return {detail::OfKnownType(),
          detail::upload(device, DType::float32, state.data(), state.size(), Shape{2}, issued_at)};
}

}  // namespace

LossScale<detail::AnyRuntime>::LossScale(std::shared_ptr<detail::DeviceState> const& device,
                                         LossScaleOptions const& options,
                                         std::source_location issued_at)
    : options_(options),
      state_(first_state(device, options, issued_at)),
      owner_(std::make_shared<std::weak_ptr<void const>>()) {}

std::shared_ptr<void const> LossScale<detail::AnyRuntime>::take() const {
  if (!owner_->expired()) {
    throw std::logic_error(
        "LossScale: a scale of two optimizers, each of which would change it; give each its own");
  }
  std::shared_ptr<void const> const owner = std::make_shared<char>();
  *owner_ = owner;
  return owner;
}

std::string LossScale<detail::AnyRuntime>::text() const {
  return fmt::format("from {}, growth {}, backoff {}, interval {}",
                     options_.initial,
                     options_.growth,
                     options_.backoff,
                     options_.interval);
}

detail::Floats LossScale<detail::AnyRuntime>::scaled(detail::AnyTape& tape,
                                                     detail::Floats const& loss,
                                                     std::source_location issued_at) const {
  require(loss.count() == 1, "LossScale: a loss of shape {}; expected a scalar", loss.shape());
  auto const scale = state_.rows(0, 1).reshaped({});
  auto output = ops::detail::scale_by_scalar(loss, scale, 1.0F, issued_at);
  tape.note_inputs(loss);
  tape.record(
      "loss_scale",
      output,
      [loss, scale, issued_at](detail::AnyTape& playing, detail::Floats const& gradient) {
        playing.state().note_scale(scale.data());
        playing.add_gradient(
            loss, ops::detail::scale_by_scalar(gradient, scale, 1.0F, issued_at), issued_at);
      },
      issued_at);
  return output;
}

float LossScale<detail::AnyRuntime>::value(std::source_location issued_at) const {
  auto const downloaded = detail::download(state_.any(), issued_at);
  float scale = 0.0F;
  std::memcpy(&scale, downloaded.data(), sizeof scale);
  return scale;
}

}  // namespace msstream
