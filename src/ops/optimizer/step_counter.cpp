// SPDX-License-Identifier: Apache-2.0
#include "ops/common/workspace.hpp"
#include "ops/optimizer/optimizer_state.hpp"
#include "ops/optimizer/table_update.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops {
namespace {

[[nodiscard]] std::optional<detail::Floats> uploaded(
    std::shared_ptr<detail::DeviceState> const& device,
    std::vector<float> const& table,
    std::source_location issued_at) {
  if (table.empty()) {
    return std::nullopt;
  }
  return detail::Floats(msstream::detail::OfKnownType(),
                        msstream::detail::upload(device,
                                                 DType::float32,
                                                 table.data(),
                                                 table.size(),
                                                 {static_cast<std::int64_t>(table.size())},
                                                 issued_at));
}

[[nodiscard]] kernels::NormPart part_of(detail::NormInput const& input) {
  if (auto const* const dense = std::get_if<detail::Floats>(&input.gradient)) {
    return {.gradient = dense->data(),
            .count = dense->count(),
            .row_count = nullptr,
            .width = 1,
            .clip_value = input.clip_value};
  }
  auto const view = view_of(std::get<detail::TableGradient>(input.gradient));
  return {.gradient = view.values,
          .count = view.capacity * input.width,
          .row_count = view.end,
          .width = input.width,
          .clip_value = input.clip_value,
          .is_part = view.begin != nullptr,
          .stride = view.stride};
}

/// Returns the gradients as kernels take them, and adds them to those that an operation reads.
[[nodiscard]] std::vector<kernels::NormPart> parts_of(
    std::vector<detail::NormInput> const& gradients, detail::Reads& read) {
  std::vector<kernels::NormPart> parts;
  parts.reserve(gradients.size());
  for (auto const& input : gradients) {
    parts.push_back(part_of(input));
    if (auto const* const dense = std::get_if<detail::Floats>(&input.gradient)) {
      read.add(*dense);
    } else {
      add_gradient(std::get<detail::TableGradient>(input.gradient), read);
    }
  }
  return parts;
}

/// The source of the learning rates of a step counter.
struct RateSource {
  Schedule const& schedule;
  float rate;
  std::optional<detail::Floats> const& table;
};
[[nodiscard]] kernels::LossScaling loss_scaling_of(detail::GradientScaling const& scaling) {
  return {.state = detail::data_of(scaling.loss_scale),
          .growth = scaling.loss_scale_growth,
          .backoff = scaling.loss_scale_backoff,
          .interval = static_cast<float>(scaling.loss_scale_interval)};
}
[[nodiscard]] kernels::StepAdvance advance_of(OptimizerRule const& rule,
                                              RateSource const& source,
                                              detail::GradientScaling const& scaling) {
  return {.rule = rule,
          .base_rate = source.rate,
          .schedule = source.schedule.numbers(),
          .table = detail::data_of(source.table),
          .gradient_factor = scaling.factor,
          .clip_norm = static_cast<double>(scaling.clip_norm),
          .skip_non_finite = scaling.skip_non_finite,
          .loss_scaling = loss_scaling_of(scaling)};
}

}  // namespace

StepCounter<detail::AnyRuntime>::StepCounter(std::shared_ptr<detail::DeviceState> const& device,
                                             Schedule schedule,
                                             float rate,
                                             std::source_location issued_at)
    : schedule_(std::move(schedule)),
      rate_(rate),
      table_(uploaded(device, schedule_.table(), issued_at)),
      state_(device, {sizeof(kernels::StepState)}) {
  issue(
      "reset_step",
      writes(state_),
      [state = detail::data_of(*this)](auto stream) { kernels::reset_step(stream, state); },
      {},
      issued_at);
}

void StepCounter<detail::AnyRuntime>::advance(OptimizerRule const& rule,
                                              std::source_location issued_at) {
  require_rule("advance_step", rule);
  advance_clipped(rule, {}, {}, issued_at);
}

void StepCounter<detail::AnyRuntime>::advance_clipped(
    OptimizerRule const& rule,
    detail::GradientScaling const& scaling,
    std::vector<detail::NormInput> const& gradients,
    std::source_location issued_at) {
  auto const advance = advance_of(rule, {schedule_, rate_, table_}, scaling);
  detail::Reads read;
  if (table_) {
    read.add(*table_);
  }
  if (std::isinf(scaling.clip_norm) && !scaling.skip_non_finite) {
    issue(
        "advance_step",
        read,
        writes(state_),
        [advance, state = detail::data_of(*this)](auto stream) {
          kernels::advance_step(stream, advance, state);
        },
        {},
        issued_at);
    return;
  }
  auto parts = parts_of(gradients, read);
  detail::Workspace const workspace(state_.device(), kernels::norm_workspace_bytes(parts));
  auto written = writes(state_);
  if (scaling.loss_scale) {
    written.add(*scaling.loss_scale);
  }
  issue(
      "advance_step_by_norm",
      read,
      workspace.with(written),
      [advance,
       parts = std::move(parts),
       memory = workspace.data(),
       state = detail::data_of(*this)](auto stream) {
        kernels::advance_step_by_norm(stream, advance, parts, memory, state);
      },
      {},
      issued_at);
}

detail::TensorOf<std::uint8_t> StepCounter<detail::AnyRuntime>::squares_of(
    detail::GradientScaling const& scaling,
    std::vector<detail::NormInput> const& gradients,
    std::size_t shared,
    std::source_location issued_at) const {
  detail::TensorOf<std::uint8_t> const squares(state_.device(), {sizeof(kernels::NormSquares)});
  kernels::StepAdvance const advance{.rule = {.kind = OptimizerKind::sgd, .learning_rate = 0.0F},
                                     .gradient_factor = scaling.factor,
                                     .skip_non_finite = scaling.skip_non_finite,
                                     .loss_scaling = loss_scaling_of(scaling)};
  detail::Reads read;
  if (scaling.loss_scale) {
    read.add(*scaling.loss_scale);
  }
  auto parts = parts_of(gradients, read);
  detail::Workspace const workspace(state_.device(), kernels::norm_workspace_bytes(parts));
  issue(
      "norm_squares",
      read,
      workspace.with(writes(squares)),
      [advance,
       parts = std::move(parts),
       shared,
       memory = workspace.data(),
       to = reinterpret_cast<kernels::NormSquares*>(squares.data())](auto stream) {
        kernels::norm_squares(stream, advance, parts, shared, memory, to);
      },
      {},
      issued_at);
  return squares;
}

void StepCounter<detail::AnyRuntime>::advance_on_ranks(
    OptimizerRule const& rule,
    detail::GradientScaling const& scaling,
    detail::TensorOf<std::uint8_t> const& squares,
    std::source_location issued_at) {
  auto const advance = advance_of(rule, {schedule_, rate_, table_}, scaling);
  auto read = reads(squares);
  if (table_) {
    read.add(*table_);
  }
  auto written = writes(state_);
  if (scaling.loss_scale) {
    written.add(*scaling.loss_scale);
  }
  issue(
      "advance_step_by_squares",
      read,
      written,
      [advance,
       from = reinterpret_cast<kernels::NormSquares const*>(squares.data()),
       ranks = squares.count() / static_cast<std::int64_t>(sizeof(kernels::NormSquares)),
       state = detail::data_of(*this)](auto stream) {
        kernels::advance_step_by_squares(stream, advance, from, ranks, state);
      },
      {},
      issued_at);
}

void StepCounter<detail::AnyRuntime>::set_rate(float rate, std::source_location issued_at) {
  require(rate >= 0.0F && std::isfinite(rate),
          "set_rate: a rate of {}; expected a number in [0, infinity)",
          rate);
  issue(
      "set_rate",
      writes(state_),
      [rate, state = detail::data_of(*this)](auto stream) {
        kernels::set_base_rate(stream, rate, state);
      },
      {},
      issued_at);
}

kernels::StepState detail::read_step(StepCounter<AnyRuntime> const& step,
                                     std::source_location issued_at) {
  auto const downloaded = msstream::detail::download(step.tensor().any(), issued_at);
  kernels::StepState state;
  std::memcpy(&state, downloaded.data(), sizeof state);
  return state;
}

}  // namespace msstream::ops
