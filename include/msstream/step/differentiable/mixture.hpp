// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/mixture.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>
#include <vector>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats mix_experts(AnyTape& tape,
                                 std::vector<Floats> const& experts,
                                 std::vector<GateLogits<AnyRuntime>> const& gates,
                                 std::source_location issued_at);
[[nodiscard]] Floats mix_experts(AnyTape& tape,
                                 std::vector<Floats> const& experts,
                                 Floats const& logits,
                                 Gates const& gates,
                                 std::source_location issued_at);

}  // namespace detail

/// Like ops::mix_experts(), but the tape records the backward. Returns only the output: [gates,
/// batch, width].
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mix_experts(tape, detail::untyped(experts), detail::untyped(gates), issued_at));
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& experts,
    Tensor<float, R> const& logits,
    Gates const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mix_experts(tape, detail::untyped(experts), logits, gates, issued_at));
}

}  // namespace msstream::ops
