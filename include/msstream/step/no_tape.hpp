// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/gradient_tape.hpp>

#include <concepts>
#include <type_traits>

namespace msstream {

/// Takes the place of a GradientTape where nothing is recorded: every differentiable operation also
/// takes no_tape first, and then is the operation without a tape. One function of a model, `auto
/// forward(auto& tape, …)`, thus serves training, evaluation and serving. Operations that training
/// and evaluation compute differently are those of evaluation: ops::dropout() drops nothing, and
/// ops::batch_norm() and ops::dice() use the running statistics.
struct NoTape {};
/// The value to pass: `ops::relu(no_tape, x)` computes ops::relu(x), and records nothing.
inline constexpr NoTape no_tape;

/// The first argument of a differentiable operation: a GradientTape of the tensors' runtime, or
/// NoTape.
template <class Tape, class R>
concept TapeOf =
    std::derived_from<Tape, GradientTape<R>> || std::same_as<std::remove_const_t<Tape>, NoTape>;

namespace ops::detail {

/// Returns the tape, or null for NoTape, for operations that are compiled once.
[[nodiscard]] inline AnyTape* tape_or_null(AnyTape& tape) noexcept {
  return &tape;
}
[[nodiscard]] inline AnyTape* tape_or_null(NoTape /*tape*/) noexcept {
  return nullptr;
}

}  // namespace ops::detail

}  // namespace msstream
