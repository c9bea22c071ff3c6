// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "ops/random/distributions.hpp"
#include "random/draw.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/ops/random_draws.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <source_location>
#include <string_view>

namespace msstream::ops::detail {
namespace {

/// Checks the shape of a tensor of random numbers, and returns the places of its elements.
[[nodiscard]] kernels::DrawPlaces places_of(char const* operation,
                                            RandomGenerator<AnyRuntime> const& random,
                                            std::string_view name,
                                            Shape const& shape,
                                            DrawOptions const& options) {
  // Fewer than 2^33 elements a sample for every type, so that the limit does not depend on it.
  auto const [samples, columns] =
      drawn_samples(operation, shape, options.first_sample, kernels::kIntegersABlock);
  return {.samples = samples,
          .columns = columns,
          .first_sample = options.first_sample,
          .stream = RandomKey::stream_of(name),
          .state = random_state_of(random.tensor())};
}

[[nodiscard]] AnyTensor draw_reals(char const* operation,
                                   DType dtype,
                                   RandomGenerator<AnyRuntime> const& random,
                                   std::string_view name,
                                   Shape const& shape,
                                   kernels::RandomFillArgs const& distribution,
                                   DrawOptions const& options,
                                   std::source_location issued_at) {
  kernels::require_real_type(operation, dtype);
  auto const places = places_of(operation, random, name, shape, options);
  AnyTensor drawn(random.tensor().device(), dtype, shape);
  kernels::DrawRealsArgs args{places, distribution};
  args.fill.data = drawn.data();
  args.fill.dtype = dtype;
  issue(
      operation,
      reads(random.tensor()),
      writes(drawn),
      [args](auto stream) { kernels::draw_reals(stream, args); },
      {},
      issued_at);
  return drawn;
}

}  // namespace

AnyTensor random_uniform(DType dtype,
                         RandomGenerator<AnyRuntime> const& random,
                         std::string_view name,
                         Shape const& shape,
                         float low,
                         float high,
                         DrawOptions const& options,
                         std::source_location issued_at) {
  constexpr auto const* kName = "random_uniform";
  auto const distribution = uniform_distribution(kName, low, high);
  return draw_reals(kName, dtype, random, name, shape, distribution, options, issued_at);
}

AnyTensor random_normal(DType dtype,
                        RandomGenerator<AnyRuntime> const& random,
                        std::string_view name,
                        Shape const& shape,
                        float mean,
                        float deviation,
                        DrawOptions const& options,
                        std::source_location issued_at) {
  constexpr auto const* kName = "random_normal";
  auto const distribution = normal_distribution(kName, mean, deviation);
  return draw_reals(kName, dtype, random, name, shape, distribution, options, issued_at);
}

AnyTensor random_integers(DType dtype,
                          RandomGenerator<AnyRuntime> const& random,
                          std::string_view name,
                          Shape const& shape,
                          std::int64_t low,
                          std::int64_t high,
                          DrawOptions const& options,
                          std::source_location issued_at) {
  constexpr auto const* kName = "random_integers";
  using Narrow = std::numeric_limits<std::int32_t>;
  require(low < high, "{}: low {}, high {}; expected low < high", kName, low, high);
  require(dtype != DType::int32 || (low >= Narrow::min() && high - 1 <= Narrow::max()),
          "{}: low {}, high {}; expected integers of int32",
          kName,
          low,
          high);
  auto const places = places_of(kName, random, name, shape, options);
  AnyTensor drawn(random.tensor().device(), dtype, shape);
  kernels::DrawIntegersArgs const args{
      .places = places,
      .data = drawn.data(),
      .dtype = dtype,
      .low = low,
      .range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low)};
  issue(
      kName,
      reads(random.tensor()),
      writes(drawn),
      [args](auto stream) { kernels::draw_integers(stream, args); },
      {},
      issued_at);
  return drawn;
}

}  // namespace msstream::ops::detail
