// SPDX-License-Identifier: Apache-2.0
#include "ops/common/workspace.hpp"
#include "ops/optimizer/optimizer_state.hpp"
#include "ops/optimizer/table_update.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
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
  advance_clipped(rule, 1.0F, std::numeric_limits<float>::infinity(), false, {}, issued_at);
}

void StepCounter<detail::AnyRuntime>::advance_clipped(
    OptimizerRule const& rule,
    float factor,
    float clip_norm,
    bool skip_non_finite,
    std::vector<detail::NormInput> const& gradients,
    std::source_location issued_at) {
  kernels::StepAdvance const advance{.rule = rule,
                                     .base_rate = rate_,
                                     .schedule = schedule_.numbers(),
                                     .table = detail::data_of(table_),
                                     .gradient_factor = factor,
                                     .clip_norm = static_cast<double>(clip_norm),
                                     .skip_non_finite = skip_non_finite};
  detail::Reads read;
  if (table_) {
    read.add(*table_);
  }
  if (std::isinf(clip_norm) && !skip_non_finite) {
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
  detail::Workspace const workspace(state_.device(), kernels::norm_workspace_bytes(parts));
  issue(
      "advance_step_by_norm",
      read,
      workspace.with(writes(state_)),
      [advance,
       parts = std::move(parts),
       memory = workspace.data(),
       state = detail::data_of(*this)](auto stream) {
        kernels::advance_step_by_norm(stream, advance, parts, memory, state);
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
