// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/random.hpp>

#include <cstdint>
#include <source_location>
#include <string_view>

/// Random tensors that are new in each step, such as negative samples and noise. Their numbers
/// depend on the seed and the step of a RandomGenerator, on a name, on the number of the sample
/// and on the column within the sample alone.
namespace msstream::ops {

/// Options of random_uniform(), random_normal() and random_integers() of a RandomGenerator.
struct DrawOptions {
  /// The number of the first sample, which is row 0, among the samples of the whole batch. If
  /// groups, or devices, have parts of a batch, each gives the number at which its part begins, and
  /// the bits are those of the whole batch.
  std::int64_t first_sample = 0;
};

namespace detail {

// The implementations of the functions of this header, compiled once for all runtimes.

[[nodiscard]] AnyTensor random_uniform(DType dtype,
                                       RandomGenerator<AnyRuntime> const& random,
                                       std::string_view name,
                                       Shape const& shape,
                                       float low,
                                       float high,
                                       DrawOptions const& options,
                                       std::source_location issued_at);
[[nodiscard]] AnyTensor random_normal(DType dtype,
                                      RandomGenerator<AnyRuntime> const& random,
                                      std::string_view name,
                                      Shape const& shape,
                                      float mean,
                                      float deviation,
                                      DrawOptions const& options,
                                      std::source_location issued_at);
[[nodiscard]] AnyTensor random_integers(DType dtype,
                                        RandomGenerator<AnyRuntime> const& random,
                                        std::string_view name,
                                        Shape const& shape,
                                        std::int64_t low,
                                        std::int64_t high,
                                        DrawOptions const& options,
                                        std::source_location issued_at);

}  // namespace detail

/// Returns a new tensor [samples, …] of float32, float16 or bfloat16 whose numbers are uniformly
/// distributed in [low, high], as those of fill_uniform() are, and new in each step of `random`.
///
/// A number depends on the generator's seed and step, `name`, the number of its sample
/// (first_sample + its row), and its column within the sample. The bits are therefore equal for any
/// number of groups, and on CUDA and the host; a resumed run draws what it would have drawn. One
/// launch; asynchronous; capture-safe: replays draw new numbers if advance() is captured too. Two
/// draws of one name in a step give equal numbers; the form with a tape refuses them. Throws
/// std::invalid_argument unless low and high are finite and low <= high, for other element types, a
/// first_sample below 0, samples from 2^48 - 2^32 on, and samples of 2^33 elements or more.
template <Element T = float, Runtime R>
[[nodiscard]] Tensor<T, R> random_uniform(
    RandomGenerator<R> const& random,
    std::string_view name,
    Shape const& shape,
    float low = 0.0F,
    float high = 1.0F,
    DrawOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(
      msstream::detail::OfKnownType(),
      detail::random_uniform(dtype_of<T>, random, name, shape, low, high, options, issued_at));
}

/// Returns a new tensor of numbers of a normal distribution, as those of fill_normal() are.
/// Otherwise like random_uniform() of a generator. Throws std::invalid_argument unless mean and
/// deviation are finite and deviation >= 0.
template <Element T = float, Runtime R>
[[nodiscard]] Tensor<T, R> random_normal(
    RandomGenerator<R> const& random,
    std::string_view name,
    Shape const& shape,
    float mean = 0.0F,
    float deviation = 1.0F,
    DrawOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(
      msstream::detail::OfKnownType(),
      detail::random_normal(dtype_of<T>, random, name, shape, mean, deviation, options, issued_at));
}

/// Returns a new tensor of int64 or int32 whose integers are in [low, high), each with the same
/// probability, except for less than 2^-64: such as the rows of a table that are the negatives of a
/// batch. Otherwise like random_uniform() of a generator. Throws std::invalid_argument unless low <
/// high and all integers of the interval are of the type.
template <IdElement T = std::int64_t, Runtime R>
[[nodiscard]] Tensor<T, R> random_integers(
    RandomGenerator<R> const& random,
    std::string_view name,
    Shape const& shape,
    std::int64_t low,
    std::int64_t high,
    DrawOptions const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return Tensor<T, R>(
      msstream::detail::OfKnownType(),
      detail::random_integers(dtype_of<T>, random, name, shape, low, high, options, issued_at));
}

}  // namespace msstream::ops
