// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

/// Random numbers by counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers:
/// As Easy as 1, 2, 3, SC 2011). Every number is a function of a key and of its place, so that the
/// bits do not depend on the stream group, on the order of the operations, or on the runtime: CUDA
/// and the host give equal bits.
namespace msstream {

namespace detail {

class RandomDraw;

}  // namespace detail

/// The options of a RandomGenerator.
struct RandomOptions {
  std::uint64_t seed = 0;  ///< generators with equal seeds draw equal numbers
};

/// The state of random operations that draw new numbers in each step: a seed and the number of the
/// step, in device memory. A replay of a captured step that calls advance() advances it too, and so
/// draws new numbers.
///
/// Two uses of a generator in one step draw different numbers if their names differ, and equal
/// numbers if their names are equal. Operations with a tape that draw, ops::dropout() and
/// ops::random_integers() among them, refuse a name that has drawn for the same samples since the
/// last advance(), so that neither two draws of one name nor a forgotten advance() repeats numbers
/// silently. The replay of a captured step refuses it too.
/// Draws whose tape is cleared or destroyed before its backward() do not count, so that a step that
/// has thrown may be repeated. Copies share the state. Operations that use the generator are
/// ordered before the next advance(), as all operations on one tensor are.
template <Runtime R = DefaultRuntime>
class RandomGenerator;

/// The implementation of RandomGenerator, compiled once for all runtimes.
template <>
class RandomGenerator<detail::AnyRuntime> {
 public:
  RandomGenerator(std::shared_ptr<detail::DeviceState> const& device,
                  RandomOptions const& options,
                  std::source_location issued_at);
  /// Begins the next step: later operations draw new numbers. Asynchronous; capture-safe: one
  /// launch.
  void advance(std::source_location issued_at = std::source_location::current());
  [[nodiscard]] detail::TensorOf<std::int64_t> const& tensor() const noexcept { return state_; }
  /// Notes that an operation draws for the samples [first, last), and returns the draw, which the
  /// tape drops if it does not play the operation back. Throws std::invalid_argument, and forgets
  /// the draws of the step, if one of the name has drawn for one of these samples since the last
  /// advance(). For use by the library only.
  [[nodiscard]] std::shared_ptr<detail::RandomDraw> note_draw(char const* operation,
                                                              std::string_view name,
                                                              std::int64_t first,
                                                              std::int64_t last) const;
  /// Returns a check of a list of tensors that forgets the draws of the step when the list is
  /// loaded. For use by the library only.
  [[nodiscard]] detail::SourceCheck check_of_list() const;
  template <class Visit>
  void visit_state(Visit&& visit) const {
    visit(std::string("random"), state_);
    if constexpr (detail::TakesHostState<Visit>) {
      visit(check_of_list());
    }
  }

 private:
  class Draws;

  detail::TensorOf<std::int64_t> state_;  ///< [2]: the seed's bits, and the step
  std::shared_ptr<Draws> draws_;          ///< since the last advance()
};

template <Runtime R>
class RandomGenerator : public RandomGenerator<detail::AnyRuntime> {
  using Body = RandomGenerator<detail::AnyRuntime>;

 public:
  /// Makes a generator in step 0.
  explicit RandomGenerator(Device<R> const& device,
                           RandomOptions const& options = {},
                           std::source_location issued_at = std::source_location::current())
      : Body(device.state(), options, issued_at) {}

  /// Returns the state in device memory, [2]: the bits of the seed, and the number of the step.
  [[nodiscard]] Tensor<std::int64_t, R> tensor() const { return detail::typed<R>(Body::tensor()); }
  /// Passes to `visit` everything that a saved run needs to draw the numbers that it would have
  /// drawn: `visit("random", tensor)` receives tensor(). Pass a reader or a writer of tensors.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    visit(std::string("random"), tensor());
    if constexpr (detail::TakesHostState<Visit>) {
      visit(Body::check_of_list());
    }
  }
};

template <Runtime R>
RandomGenerator(Device<R>, RandomOptions = {}) -> RandomGenerator<R>;

/// The key of the numbers that fill a tensor: a seed, and the name of the tensor or a number of its
/// own. Tensors of one seed with different names get independent numbers.
struct RandomKey {
  std::uint64_t seed = 0;    ///< of the program, for all its tensors
  std::uint64_t stream = 0;  ///< of the tensor: a number of its own, or stream_of() its name

  constexpr RandomKey() = default;
  /// Makes the key of a tensor with a number, or with a name, of which stream_of() makes the
  /// number.
  constexpr RandomKey(std::uint64_t of_seed, std::uint64_t number)
      : seed(of_seed), stream(number) {}
  constexpr RandomKey(std::uint64_t of_seed, std::string_view name)
      : seed(of_seed), stream(stream_of(name)) {}

  /// Returns the number of the stream of a name: its 64-bit FNV-1a hash.
  [[nodiscard]] static constexpr std::uint64_t stream_of(std::string_view name) {
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (char const letter : name) {
      hash = (hash ^ static_cast<std::uint8_t>(letter)) * 0x100000001B3ULL;
    }
    return hash;
  }
};

}  // namespace msstream

namespace msstream::ops {

namespace detail {

/// The place of a tensor [rows, columns] in a matrix of more rows and columns, a block of which it
/// is. Without columns, the tensor is a whole one of any shape.
struct MatrixBlock {
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;
  std::int64_t whole_columns = 0;
};

// The implementations of the functions that fill tensors with random numbers, compiled once for all
// runtimes. A block gets the elements that it has in the whole matrix.

void fill_uniform(AnyTensor const& tensor,
                  RandomKey const& key,
                  float low,
                  float high,
                  std::source_location issued_at,
                  MatrixBlock const& block = {});
void fill_normal(AnyTensor const& tensor,
                 RandomKey const& key,
                 float mean,
                 float deviation,
                 std::source_location issued_at,
                 MatrixBlock const& block = {});
void fill_truncated_normal(AnyTensor const& tensor,
                           RandomKey const& key,
                           float mean,
                           float deviation,
                           float low,
                           float high,
                           std::source_location issued_at,
                           MatrixBlock const& block = {});

}  // namespace detail

/// Fills a tensor of float32, float16 or bfloat16 with numbers that are uniformly distributed in
/// [low, high]. Element i depends on the key, the bounds and i alone: a longer tensor begins like a
/// shorter one. There are 2^32 different numbers, and the float32 nearest to each is rounded to the
/// type of the tensor.
///
/// The bits are equal on CUDA and on the host. One launch; asynchronous; capture-safe: each replay
/// gives the same numbers. Throws std::invalid_argument unless low and high are finite and low <=
/// high, and for other element types.
template <Element T, Runtime R>
void fill_uniform(Tensor<T, R> const& tensor,
                  RandomKey const& key,
                  float low = 0.0F,
                  float high = 1.0F,
                  std::source_location issued_at = std::source_location::current()) {
  detail::fill_uniform(tensor.any(), key, low, high, issued_at);
}

/// Fills a tensor of float32, float16 or bfloat16 with numbers of a normal distribution: mean +
/// deviation * z, for z = the inverse of the distribution (Wichura, Algorithm AS 241, 1988) at a
/// number of 32 bits, so that |z| is below 6.4. Otherwise like fill_uniform(). Throws
/// std::invalid_argument unless mean and deviation are finite and deviation >= 0.
template <Element T, Runtime R>
void fill_normal(Tensor<T, R> const& tensor,
                 RandomKey const& key,
                 float mean = 0.0F,
                 float deviation = 1.0F,
                 std::source_location issued_at = std::source_location::current()) {
  detail::fill_normal(tensor.any(), key, mean, deviation, issued_at);
}

/// Fills a tensor of float32, float16 or bfloat16 with numbers of a normal distribution that is
/// limited to [low, high]: numbers outside do not occur, and those inside are more probable in
/// proportion. No number is rejected and drawn again. Otherwise like fill_uniform(). Throws
/// std::invalid_argument unless mean and deviation are finite, deviation > 0 and low < high; the
/// bounds may be infinite.
template <Element T, Runtime R>
void fill_truncated_normal(Tensor<T, R> const& tensor,
                           RandomKey const& key,
                           float mean = 0.0F,
                           float deviation = 1.0F,
                           float low = -2.0F,
                           float high = 2.0F,
                           std::source_location issued_at = std::source_location::current()) {
  detail::fill_truncated_normal(tensor.any(), key, mean, deviation, low, high, issued_at);
}

/// Returns a new tensor that fill_uniform() has filled.
template <Element T = float, Runtime R>
[[nodiscard]] Tensor<T, R> random_uniform(
    Device<R> const& device,
    Shape const& shape,
    RandomKey const& key,
    float low = 0.0F,
    float high = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  Tensor<T, R> const tensor(device, shape);
  fill_uniform(tensor, key, low, high, issued_at);
  return tensor;
}
/// Returns a new tensor that fill_normal() has filled.
template <Element T = float, Runtime R>
[[nodiscard]] Tensor<T, R> random_normal(
    Device<R> const& device,
    Shape const& shape,
    RandomKey const& key,
    float mean = 0.0F,
    float deviation = 1.0F,
    std::source_location issued_at = std::source_location::current()) {
  Tensor<T, R> const tensor(device, shape);
  fill_normal(tensor, key, mean, deviation, issued_at);
  return tensor;
}
/// Returns a new tensor that fill_truncated_normal() has filled.
template <Element T = float, Runtime R>
[[nodiscard]] Tensor<T, R> random_truncated_normal(
    Device<R> const& device,
    Shape const& shape,
    RandomKey const& key,
    float mean = 0.0F,
    float deviation = 1.0F,
    float low = -2.0F,
    float high = 2.0F,
    std::source_location issued_at = std::source_location::current()) {
  Tensor<T, R> const tensor(device, shape);
  fill_truncated_normal(tensor, key, mean, deviation, low, high, issued_at);
  return tensor;
}

/// Options of dropout().
struct DropoutOptions {
  /// The probability of an element to be dropped, in [0, 1).
  float rate = 0.5F;
  /// The number of the input's first sample among the samples of the whole batch. If groups, or
  /// devices, have parts of a batch, each gives the number at which its part begins, and the bits
  /// are those of the whole batch.
  std::int64_t first_sample = 0;
};

/// The result of dropout(): the output, and the state of the generator that it was drawn with, [2],
/// which the gradient needs. `drawn` is null if the rate is 0.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct DropoutResult {
  Tensor<T, R> output;  ///< in the shape of the input
  std::optional<Tensor<std::int64_t, R>> drawn;
};

namespace detail {

struct AnyDropoutResult {
  AnyTensor output;
  std::optional<TensorOf<std::int64_t>> drawn;
};

/// Throws std::invalid_argument for options that dropout() refuses for an input of this shape.
void require_dropout(char const* operation, Shape const& shape, DropoutOptions const& options);

// The implementations of dropout() and dropout_gradient(), compiled once for all types and
// runtimes.

[[nodiscard]] AnyDropoutResult dropout(AnyTensor const& input,
                                       DropoutOptions const& options,
                                       RandomGenerator<AnyRuntime> const& random,
                                       std::string_view name,
                                       std::source_location issued_at);
[[nodiscard]] AnyTensor dropout_gradient(AnyTensor const& output_gradient,
                                         std::optional<TensorOf<std::int64_t>> const& drawn,
                                         DropoutOptions const& options,
                                         std::string_view name,
                                         std::source_location issued_at);

}  // namespace detail

/// Drops elements at random (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov: Dropout,
/// 2014): an element becomes 0 with the probability `rate`, and the others are multiplied by 1 / (1
/// - rate). float32, float16 or bfloat16 [batch, …] → the same shape and type, computed in float32
/// and rounded once. Dropped NaNs and infinities become 0 too.
///
/// Whether an element is dropped depends on the generator's seed and step, `name`, the number of
/// its sample (first_sample + its row), and its column within the sample. The bits are therefore
/// equal for any number of groups, and on CUDA and the host. A rate of 0 returns the input without
/// a launch. One launch; asynchronous; capture-safe: replays draw new numbers if advance() is
/// captured too. Throws std::invalid_argument for a rate outside [0, 1), a first_sample below 0,
/// samples from 2^48 - 2^32 on, and samples of 2^34 elements or more.
template <RealElement T, Runtime R>
[[nodiscard]] DropoutResult<R, T> dropout(
    Tensor<T, R> const& input,
    DropoutOptions const& options,
    RandomGenerator<R> const& random,
    std::string_view name,
    std::source_location issued_at = std::source_location::current()) {
  auto result = detail::dropout(input.any(), options, random, name, issued_at);
  return {{msstream::detail::OfKnownType(), std::move(result.output)},
          detail::typed<R>(std::move(result.drawn))};
}

/// Returns the gradient of dropout(), from the gradient of the output, and the options, the name
/// and the result's `drawn` of the forward. The generator may have been advanced since. One launch.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> dropout_gradient(
    Tensor<T, R> const& output_gradient,
    std::type_identity_t<std::optional<Tensor<std::int64_t, R>>> const& drawn,
    DropoutOptions const& options,
    std::string_view name,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dropout_gradient(output_gradient.any(), drawn, options, name, issued_at)};
}

}  // namespace msstream::ops
