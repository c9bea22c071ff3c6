// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>

namespace msstream {

struct LossScaleOptions {
  float initial = 65'536.0F;  ///< the scale of the first step, in [2^-100, 2^100]
  float growth = 2.0F;        ///< factor of the scale after `interval` good steps in a row, from 1
  float backoff = 0.5F;       ///< factor of the scale after an overflow, in (0, 1]
  std::int64_t interval = 2000;  ///< steps, in [1, 2^24]

  /// Returns the options of a scale that never changes. An overflow still skips its step.
  [[nodiscard]] static LossScaleOptions fixed(float scale) {
    return {.initial = scale, .growth = 1.0F, .backoff = 1.0F};
  }
};

/// The factor of a loss, which moves its gradients into the range of float16: small gradients that
/// float16 would round to 0 become larger ones. The scale lies on the device, and each step of an
/// optimizer with OptimizerOptions::loss_scale changes it there, also in replays of a captured
/// step: after an overflow it becomes smaller and the step is skipped, and after enough steps
/// without one larger (Micikevicius et al., Mixed Precision Training, 2018, section 3.2).
///
///     ms::LossScale const scale(device);
///     ms::Optimizer optimizer(device, rule, {.loss_scale = scale});
///     tape.backward(scale.scaled(tape, loss));
///     optimizer.step(tape);
///
/// Copies share the scale. The scale of an optimizer is a part of its state in checkpoints. Not
/// synchronised.
template <Runtime R = DefaultRuntime>
class LossScale;

/// The implementation of LossScale<R>, compiled once for all runtimes.
template <>
class LossScale<detail::AnyRuntime> {
 public:
  LossScale(std::shared_ptr<detail::DeviceState> const& device,
            LossScaleOptions const& options,
            std::source_location issued_at);

  /// Returns the factor of the scale after enough steps without an overflow.
  [[nodiscard]] float growth() const noexcept { return options_.growth; }
  /// Returns the factor of the scale after an overflow.
  [[nodiscard]] float backoff() const noexcept { return options_.backoff; }
  /// Returns the number of steps without an overflow after which the scale grows.
  [[nodiscard]] std::int64_t interval() const noexcept { return options_.interval; }
  /// Returns the scale and the number of steps since it last changed: float32 [2].
  [[nodiscard]] detail::Floats const& state() const noexcept { return state_; }
  /// Makes the caller the one that changes the scale, as long as it keeps the result. For use by
  /// the library only. Throws std::logic_error if another one does.
  [[nodiscard]] std::shared_ptr<void const> take() const;
  /// Returns the options as text, for messages.
  [[nodiscard]] std::string text() const;

  // The implementations of functions of LossScale<R>, which documents them.

  [[nodiscard]] detail::Floats scaled(detail::AnyTape& tape,
                                      detail::Floats const& loss,
                                      std::source_location issued_at) const;
  [[nodiscard]] float value(std::source_location issued_at) const;

 private:
  LossScaleOptions options_;
  detail::Floats state_;
  std::shared_ptr<std::weak_ptr<void const>> owner_;
};

template <Runtime R>
class LossScale : public LossScale<detail::AnyRuntime> {
  using Body = LossScale<detail::AnyRuntime>;

 public:
  /// Uploads the first scale, so it must not be called inside a capture. Throws
  /// std::invalid_argument for options out of range.
  explicit LossScale(Device<R> const& device,
                     LossScaleOptions const& options = {},
                     std::source_location issued_at = std::source_location::current())
      : Body(device.state(), options, issued_at) {}

  /// Returns the loss, a scalar, multiplied by the scale, for GradientTape::backward(). The
  /// gradients of all tensors are then those of the loss times the scale, until the optimizer
  /// divides them. If a tape plays back several losses before a step, each must be scaled, or the
  /// step throws std::logic_error. Asynchronous; capture-safe. Throws std::invalid_argument for
  /// another shape.
  [[nodiscard]] Tensor<float, R> scaled(
      GradientTape<R>& tape,
      Tensor<float, R> const& loss,
      std::source_location issued_at = std::source_location::current()) const {
    return detail::typed<R>(Body::scaled(tape, loss, issued_at));
  }
  /// Waits for all steps and replays that were issued, and returns the scale of the next step.
  [[nodiscard]] float value(
      std::source_location issued_at = std::source_location::current()) const {
    return Body::value(issued_at);
  }
};

template <Runtime R>
LossScale(Device<R>, LossScaleOptions = {}) -> LossScale<R>;

}  // namespace msstream
