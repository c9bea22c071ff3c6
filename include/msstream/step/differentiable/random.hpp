// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/ops/random_draws.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>
#include <string_view>

/// Random tensors of a training step, with a GradientTape as first argument, which refuses a draw
/// that would repeat another, as dropout() does: random_uniform(), random_normal() and
/// random_integers() throw std::invalid_argument for a name that has drawn for the same samples
/// since the generator's last advance(), dropouts included, and so does the replay of a captured
/// step. Draws whose tape is cleared or destroyed before its backward() do not count, so that a
/// step that has thrown may be repeated. With NoTape, and while a GradientTape::Pause lives,
/// nothing is refused. The numbers are those of the functions without a tape; they have no
/// gradient.
namespace msstream::ops {

namespace detail {

// Notes that an operation of a tape draws for the rows of a tensor of the given shape.
void note_draw(AnyTape& tape,
               char const* operation,
               RandomGenerator<AnyRuntime> const& random,
               std::string_view name,
               Shape const& shape,
               DrawOptions const& options);
inline void note_draw(NoTape,
                      char const* /*operation*/,
                      RandomGenerator<AnyRuntime> const& /*random*/,
                      std::string_view /*name*/,
                      Shape const& /*shape*/,
                      DrawOptions const& /*options*/) {}

}  // namespace detail

/// Draws as ops::random_uniform() of a generator, once for the name and samples in a step.
template <Element T = float, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> random_uniform(
    Tape& tape,
    RandomGenerator<R> const& random,
    std::string_view name,
    Shape const& shape,
    float low = 0.0F,
    float high = 1.0F,
    DrawOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto drawn = random_uniform<T>(random, name, shape, low, high, options, issued_at);
  detail::note_draw(tape, "random_uniform", random, name, shape, options);
  return drawn;
}

/// Draws as ops::random_normal() of a generator, once for the name and samples in a step.
template <Element T = float, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> random_normal(
    Tape& tape,
    RandomGenerator<R> const& random,
    std::string_view name,
    Shape const& shape,
    float mean = 0.0F,
    float deviation = 1.0F,
    DrawOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto drawn = random_normal<T>(random, name, shape, mean, deviation, options, issued_at);
  detail::note_draw(tape, "random_normal", random, name, shape, options);
  return drawn;
}

/// Draws as ops::random_integers() of a generator, once for the name and samples in a step.
template <IdElement T = std::int64_t, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> random_integers(
    Tape& tape,
    RandomGenerator<R> const& random,
    std::string_view name,
    Shape const& shape,
    std::int64_t low,
    std::int64_t high,
    DrawOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  auto drawn = random_integers<T>(random, name, shape, low, high, options, issued_at);
  detail::note_draw(tape, "random_integers", random, name, shape, options);
  return drawn;
}

}  // namespace msstream::ops
