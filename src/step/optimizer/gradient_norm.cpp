// SPDX-License-Identifier: Apache-2.0
#include "step/optimizer/gradient_norm.hpp"

#include "step/parallel/equal_on_ranks.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <cmath>
#include <stdexcept>

namespace msstream::detail {

void GradientNorm::add_ranks(comm::detail::AnyCommunicator const& communicator) {
  if (communicator.size() == 1) {
    return;
  }
  require(!communicator_ || (communicator_->rank() == communicator.rank() &&
                             communicator_->size() == communicator.size()),
          "Optimizer: tables of rank {} of {} of communicator '{}', and of rank {} of {} of "
          "communicator '{}'; expected the same ranks",
          communicator_ ? communicator_->rank() : 0,
          communicator_ ? communicator_->size() : 0,
          communicator_ ? communicator_->name() : "",
          communicator.rank(),
          communicator.size(),
          communicator.name());
  require_equal_on_ranks("Optimizer of tables in parts",
                         "options",
                         communicator.exchange(fmt::format(
                             "clip_norm {}, skip_non_finite {}, micro_batches {}, loss scale {}{}",
                             clip_norm_,
                             skip_non_finite_,
                             micro_batches_,
                             scale_ ? scale_->text() : "none",
                             rounding_)));
  if (!communicator_) {
    communicator_ = communicator;
  }
}

void GradientNorm::require_scaled(AnyTape const& tape) const {
  if (tape.state().has_mixed_scales) {
    throw std::logic_error(
        "Optimizer::step: gradients of losses that not all have the same LossScale, or of which "
        "only some were scaled; call each backward() with LossScale::scaled(tape, loss) of one "
        "scale, or clear() the tape between them");
  }
  auto const* const expected = scale_ ? scale_->state().data() : nullptr;
  auto const* const found = tape.state().loss_scale;
  if (found != expected) {
    throw std::logic_error(
        expected == nullptr
            ? "Optimizer::step: gradients of a scaled loss; give the optimizer the LossScale that "
              "scaled it, as OptimizerOptions::loss_scale"
        : found == nullptr
            ? "Optimizer::step: an optimizer with a loss scale, and gradients of a loss that was "
              "not scaled; call backward() with LossScale::scaled(tape, loss)"
            : "Optimizer::step: gradients of a loss that another LossScale has scaled");
  }
}

bool GradientNorm::is_used() const noexcept {
  return std::isfinite(clip_norm_) || skip_non_finite_;
}

void GradientNorm::advance(ops::StepCounter<AnyRuntime>& step,
                           ops::OptimizerRule const& rule,
                           std::int64_t micro_batches,
                           JudgedGradients const& gradients,
                           std::source_location issued_at) const {
  ops::detail::GradientScaling const scaling{
      .factor = 1.0F / static_cast<float>(micro_batches),
      .clip_norm = clip_norm_,
      .skip_non_finite = skip_non_finite_,
      .loss_scale = scale_ ? std::optional(scale_->state()) : std::nullopt,
      .loss_scale_growth = scale_ ? scale_->growth() : 1.0F,
      .loss_scale_backoff = scale_ ? scale_->backoff() : 1.0F,
      .loss_scale_interval = scale_ ? scale_->interval() : 1};
  auto all = gradients.shared;
  all.insert(all.end(), gradients.own.begin(), gradients.own.end());
  if (!is_used() || !communicator_) {
    step.advance_clipped(rule, scaling, all, issued_at);
    return;
  }
  NameScope const named("gradient_norm");
  auto const own = step.squares_of(scaling, all, gradients.shared.size(), issued_at);
  TensorOf<std::uint8_t> const of_ranks(own.device(), {communicator_->size() * own.count()});
  // Gathered rather than reduced, so that the squares keep their bits: no collective adds float64.
  comm::detail::all_gather(*communicator_, own.any(), of_ranks.any(), issued_at);
  step.advance_on_ranks(rule, scaling, of_ranks, issued_at);
}

}  // namespace msstream::detail
