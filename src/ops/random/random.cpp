// SPDX-License-Identifier: Apache-2.0
#include "common/philox.hpp"
#include "common/real_types.hpp"
#include "memory/device/device_state.hpp"
#include "memory/device/open_capture.hpp"
#include "ops/random/distributions.hpp"
#include "ops/random/draws.hpp"
#include "random/dropout.hpp"
#include "random/fill.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string_view>

namespace msstream {

RandomGenerator<detail::AnyRuntime>::RandomGenerator(
    std::shared_ptr<detail::DeviceState> const& device,
    RandomOptions const& options,
    std::source_location issued_at)
    : state_(device, {2}), draws_(std::make_shared<Draws>()) {
  issue(
      "set_random",
      writes(state_),
      [seed = options.seed, state = ops::detail::random_state_of(state_)](auto stream) {
        ops::kernels::set_random(stream, {seed, 0}, state);
      },
      {},
      issued_at);
}

std::shared_ptr<detail::RandomDraw> RandomGenerator<detail::AnyRuntime>::note_draw(
    char const* operation, std::string_view name, std::int64_t first, std::int64_t last) const {
  auto draw = std::make_shared<detail::RandomDraw>(first, last);
  draws_->note(detail::OpenCapture::current(*state_.device()->context), operation, name, draw);
  return draw;
}

detail::SourceCheck RandomGenerator<detail::AnyRuntime>::check_of_list() const {
  return [draws = draws_](char const*, bool saves) {
    if (!saves) {
      draws->forget();
    }
  };
}

void RandomGenerator<detail::AnyRuntime>::advance(std::source_location issued_at) {
  draws_->advance(detail::OpenCapture::current(*state_.device()->context));
  issue(
      "advance_random",
      writes(state_),
      [state = ops::detail::random_state_of(state_)](auto stream) {
        ops::kernels::advance_random(stream, state);
      },
      {},
      issued_at);
}

namespace ops::detail {
namespace {

void fill(char const* operation,
          AnyTensor const& tensor,
          RandomKey const& key,
          kernels::RandomFillArgs args,
          MatrixBlock const& block,
          std::source_location issued_at) {
  kernels::require_real_type(operation, tensor.dtype());
  if (block.whole_columns > 0) {
    args.first = block.first_row * block.whole_columns + block.first_column;
    args.columns = tensor.shape()[1];
    args.whole_columns = block.whole_columns;
  }
  args.data = tensor.data();
  args.dtype = tensor.dtype();
  args.count = tensor.count();
  args.key = kernels::philox_key(key.seed, key.stream);
  issue(
      operation,
      writes(tensor),
      [args](auto stream) { kernels::random_fill(stream, args); },
      {},
      issued_at);
}

/// Checks the arguments of a dropout of a tensor of the given shape, and returns those that do not
/// depend on memory.
[[nodiscard]] kernels::DropoutArgs dropout_args(char const* operation,
                                                Shape const& shape,
                                                DropoutOptions const& options,
                                                std::string_view name) {
  require(options.rate >= 0.0F && options.rate < 1.0F,
          "{}: rate of {}; expected a number in [0, 1)",
          operation,
          options.rate);
  constexpr std::int64_t kElementsABlock = 4;
  auto const [samples, columns] =
      drawn_samples(operation, shape, options.first_sample, kElementsABlock);
  constexpr double kWords = 4294967296.0;
  auto const threshold = std::round(static_cast<double>(options.rate) * kWords);
  return {.input = nullptr,
          .output = nullptr,
          .samples = samples,
          .columns = columns,
          .first_sample = options.first_sample,
          .stream = RandomKey::stream_of(name),
          .threshold = static_cast<std::uint32_t>(std::min(threshold, kWords - 1.0)),
          .scale = static_cast<float>(1.0 / (1.0 - static_cast<double>(options.rate))),
          .state = nullptr,
          .drawn = nullptr};
}

}  // namespace

void fill_uniform(AnyTensor const& tensor,
                  RandomKey const& key,
                  float low,
                  float high,
                  std::source_location issued_at,
                  MatrixBlock const& block) {
  constexpr auto const* kName = "fill_uniform";
  fill(kName, tensor, key, uniform_distribution(kName, low, high), block, issued_at);
}

void fill_normal(AnyTensor const& tensor,
                 RandomKey const& key,
                 float mean,
                 float deviation,
                 std::source_location issued_at,
                 MatrixBlock const& block) {
  constexpr auto const* kName = "fill_normal";
  fill(kName, tensor, key, normal_distribution(kName, mean, deviation), block, issued_at);
}

void fill_truncated_normal(AnyTensor const& tensor,
                           RandomKey const& key,
                           float mean,
                           float deviation,
                           float low,
                           float high,
                           std::source_location issued_at,
                           MatrixBlock const& block) {
  require(std::isfinite(mean) && std::isfinite(deviation) && deviation > 0.0F,
          "fill_truncated_normal: mean {}, deviation {}; expected finite numbers, deviation > 0",
          mean,
          deviation);
  require(low < high, "fill_truncated_normal: low {}, high {}; expected low < high", low, high);
  double const centre = mean;
  double const scale = deviation;
  double const from = (static_cast<double>(low) - centre) / scale;
  double const to = (static_cast<double>(high) - centre) / scale;
  // If most of the interval is above the mean, its mirror image is drawn from: probabilities near 0
  // have more digits than those near 1.
  bool const mirrored = from + to > 0.0;
  double const first = kernels::normal_probability(mirrored ? -to : from);
  double const last = kernels::normal_probability(mirrored ? -from : to);
  fill("fill_truncated_normal",
       tensor,
       key,
       {.data = nullptr,
        .dtype = {},
        .count = 0,
        .key = 0,
        .is_normal = true,
        .base = centre,
        .factor = mirrored ? -scale : scale,
        .low = low,
        .high = high,
        .first_probability = first,
        .probabilities = last - first},
       block,
       issued_at);
}

void require_dropout(char const* operation, Shape const& shape, DropoutOptions const& options) {
  (void)dropout_args(operation, shape, options, {});
}

AnyDropoutResult dropout(AnyTensor const& input,
                         DropoutOptions const& options,
                         RandomGenerator<AnyRuntime> const& random,
                         std::string_view name,
                         std::source_location issued_at) {
  auto args = dropout_args("dropout", input.shape(), options, name);
  if (options.rate == 0.0F) {
    return {input, std::nullopt};
  }
  AnyTensor output(input.device(), input.dtype(), input.shape());
  TensorOf<std::int64_t> const drawn(input.device(), {2});
  args.dtype = input.dtype();
  args.input = input.data();
  args.output = output.data();
  args.state = random_state_of(random.tensor());
  args.drawn = random_state_of(drawn);
  issue(
      "dropout",
      reads(input, random.tensor()),
      writes(output, drawn),
      [args](auto stream) { kernels::dropout(stream, args); },
      {},
      issued_at);
  return {output, drawn};
}

AnyTensor dropout_gradient(AnyTensor const& output_gradient,
                           std::optional<TensorOf<std::int64_t>> const& drawn,
                           DropoutOptions const& options,
                           std::string_view name,
                           std::source_location issued_at) {
  auto args = dropout_args("dropout_gradient", output_gradient.shape(), options, name);
  require(drawn.has_value() == (options.rate > 0.0F) && (!drawn || drawn->count() == 2),
          "dropout_gradient: the state that the forward has drawn with is {} for a rate of {}",
          drawn ? "a tensor" : "null",
          options.rate);
  if (!drawn) {
    return output_gradient;
  }
  AnyTensor gradient(output_gradient.device(), output_gradient.dtype(), output_gradient.shape());
  args.dtype = output_gradient.dtype();
  args.input = output_gradient.data();
  args.output = gradient.data();
  args.state = random_state_of(*drawn);
  issue(
      "dropout_gradient",
      reads(output_gradient, *drawn),
      writes(gradient),
      [args](auto stream) { kernels::dropout(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace ops::detail
}  // namespace msstream
