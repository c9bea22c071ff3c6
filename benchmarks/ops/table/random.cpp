// SPDX-License-Identifier: Apache-2.0
#include "ops/table/cases.hpp"

#include <msstream/ops/random_draws.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <string_view>

/// Cases of random numbers. Bytes count the numbers that are written.
namespace benchmarks::table {
namespace {

using Sizes = axes::Table;
namespace ops = ms::ops;

/// Adds a case of a function that fills a matrix of elements of T.
template <ms::Element T, ms::Runtime R, class Function>
void add_fill(AddCase<R> const& add,
              std::string_view name,
              std::string_view dtype,
              Function function) {
  add(fmt::format("{}/{}", name, dtype), [=](benchmark::State& state, Lab<R>& lab) {
    ms::Tensor<T, R> const filled(lab.device(), {rows_of_width(lab, Sizes::kWidth), Sizes::kWidth});
    lab.bench().measure_cold(state, {.bytes = bytes_of(filled)}, [&] { function(filled); });
  });
}

template <ms::RealElement T, ms::Runtime R>
void add_fills(AddCase<R> const& add, std::string_view dtype) {
  ms::RandomKey const key(5, 7);
  add_fill<T, R>(
      add, "fill_uniform", dtype, [=](auto const& tensor) { ops::fill_uniform(tensor, key); });
  add_fill<T, R>(
      add, "fill_normal", dtype, [=](auto const& tensor) { ops::fill_normal(tensor, key); });
  add_fill<T, R>(add, "fill_truncated_normal", dtype, [=](auto const& tensor) {
    ops::fill_truncated_normal(tensor, key);
  });
}

/// Adds a case of a function that draws a matrix of elements of T by a generator.
template <ms::Element T, ms::Runtime R, class Function>
void add_draw(AddCase<R> const& add, char const* name, Function function) {
  add(name, [=](benchmark::State& state, Lab<R>& lab) {
    ms::RandomGenerator<R> const random(lab.device(), {.seed = 5});
    ms::Shape const shape{rows_of_width(lab, Sizes::kWidth), Sizes::kWidth};
    double const bytes = static_cast<double>(shape.count()) * sizeof(T);
    lab.bench().measure_cold(
        state, {.bytes = bytes}, [&] { benchmark::DoNotOptimize(function(random, shape)); });
  });
}

}  // namespace

template <ms::Runtime R>
void add_random_cases(AddCase<R> const& add) {
  add_fills<float>(add, "float32");
  add_fills<ms::bfloat16>(add, "bfloat16");
  add_draw<float, R>(add, "random_uniform/float32", [](auto const& random, auto const& shape) {
    return ops::random_uniform(random, "drawn", shape);
  });
  add_draw<float, R>(add, "random_normal/float32", [](auto const& random, auto const& shape) {
    return ops::random_normal(random, "drawn", shape);
  });
  add_draw<std::int64_t, R>(
      add, "random_integers/int64", [](auto const& random, auto const& shape) {
        return ops::random_integers(random, "drawn", shape, 0, axes::Kernels::kTableRows);
      });
  add_draw<std::int32_t, R>(
      add, "random_integers/int32", [](auto const& random, auto const& shape) {
        return ops::random_integers<std::int32_t>(
            random, "drawn", shape, 0, axes::Kernels::kTableRows);
      });
}

template void add_random_cases(AddCase<ms::Host> const& add);
#if MSSTREAM_CUDA
template void add_random_cases(AddCase<ms::Cuda> const& add);
#endif

}  // namespace benchmarks::table
