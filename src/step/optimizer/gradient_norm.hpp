// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/optimizer/table_update.hpp"
#include "step/optimizer/table_rounding.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/step/optimizer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::detail {

/// The gradients of one step: those that all ranks have, and those that this rank alone has.
struct JudgedGradients {
  std::vector<ops::detail::NormInput> shared;
  std::vector<ops::detail::NormInput> own;
};

/// Advances the step of an optimizer, and clips its gradients by their global norm, or skips the
/// step, if the options request it. Not synchronised.
class GradientNorm {
 public:
  explicit GradientNorm(OptimizerOptions const& options)
      : clip_norm_(options.clip_norm),
        skip_non_finite_(options.skip_non_finite || options.loss_scale),
        micro_batches_(options.micro_batches),
        scale_(options.loss_scale),
        owns_scale_(scale_ ? scale_->take() : nullptr),
        rounding_(text_of_rounding(options)) {}

  /// Counts the gradients of all ranks of the communicator from the next step on. Blocks the host
  /// until all ranks have called it. Throws std::invalid_argument, on all ranks, if their options
  /// differ, and for a communicator of other ranks than an earlier one.
  void add_ranks(comm::detail::AnyCommunicator const& communicator);

  /// Returns whether a step depends on the gradients of all parameters together.
  [[nodiscard]] bool is_used() const noexcept;
  /// Throws std::logic_error unless all gradients of the tape are those of losses that the scale of
  /// the options has scaled, or without one, of losses that no scale has.
  void require_scaled(AnyTape const& tape) const;
  [[nodiscard]] std::optional<LossScale<AnyRuntime>> const& scale() const noexcept {
    return scale_;
  }
  /// Counts a step with the mean of the gradients of so many micro-batches. With several ranks, the
  /// squares of their parts are exchanged on the device.
  void advance(ops::StepCounter<AnyRuntime>& step,
               ops::OptimizerRule const& rule,
               std::int64_t micro_batches,
               JudgedGradients const& gradients,
               std::source_location issued_at) const;

 private:
  float clip_norm_;
  bool skip_non_finite_;
  std::int64_t micro_batches_;
  std::optional<LossScale<AnyRuntime>> scale_;
  std::shared_ptr<void const> owns_scale_;
  std::string rounding_;  ///< how tables are rounded, for the comparison of ranks
  std::optional<comm::detail::AnyCommunicator> communicator_;
};

}  // namespace msstream::detail
