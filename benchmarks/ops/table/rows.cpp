// SPDX-License-Identifier: Apache-2.0
#include "ops/table/cases.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <string_view>

/// Cases of functions of the rows or columns of a matrix: normalisations, activations with a weight
/// for each column, and reductions.
namespace benchmarks::table {
namespace {

using Sizes = axes::Table;
namespace ops = ms::ops;

/// A matrix of width kRowWidth, the gradient of a result of its shape, and a weight, a bias and
/// running statistics of its columns.
template <ms::Runtime R>
struct Columns {
  ms::Tensor<float, R> input;
  ms::Tensor<float, R> gradient;
  ms::Tensor<float, R> weight;
  ms::Tensor<float, R> bias;
  ops::RunningStatistics<R> running;

  explicit Columns(Lab<R>& lab)
      : input(random_tensor(lab, {rows_of_width(lab, Sizes::kRowWidth), Sizes::kRowWidth}, 0)),
        gradient(random_tensor(lab, input.shape(), 1)),
        weight(random_tensor(lab, {Sizes::kRowWidth}, 2)),
        bias(random_tensor(lab, {Sizes::kRowWidth}, 3)),
        running{random_tensor(lab, {Sizes::kRowWidth}, 4),
                random_tensor(lab, {Sizes::kRowWidth}, 5, 0.5F)} {}
};

/// Adds a case of a function of Columns, which must read and write as many matrices as `moved`
/// says. `prepare` makes what the function needs besides.
template <ms::Runtime R, class Prepare, class Function>
void add_columns(
    AddCase<R> const& add, char const* name, int moved, Prepare prepare, Function function) {
  add(name, [=](benchmark::State& state, Lab<R>& lab) {
    Columns<R> const of(lab);
    auto const prepared = prepare(of);
    lab.bench().measure_cold(state, {.bytes = moved * bytes_of(of.input)}, [&] {
      benchmark::DoNotOptimize(function(of, prepared));
    });
  });
}

template <ms::Runtime R>
void add_normalisations(AddCase<R> const& add) {
  using Of = Columns<R>;
  auto const nothing = [](Of const&) { return 0; };
  auto const dice = [](Of const& of) { return ops::dice(of.input, of.weight, of.running); };
  auto const batch_norm = [](Of const& of) {
    return ops::batch_norm(of.input, of.weight, of.bias, of.running);
  };
  add_columns<R>(
      add, "prelu", 2, nothing, [](Of const& of, int) { return ops::prelu(of.input, of.weight); });
  add_columns<R>(add, "prelu_gradient", 3, nothing, [](Of const& of, int) {
    return ops::prelu_gradient(of.input, of.weight, of.gradient);
  });
  add_columns<R>(add, "dice", 2, nothing, [=](Of const& of, int) { return dice(of); });
  add_columns<R>(add, "dice_gradient", 3, dice, [](Of const& of, auto const& result) {
    return ops::dice_gradient(of.input, of.weight, result.statistics, of.gradient);
  });
  add_columns<R>(add, "batch_norm", 2, nothing, [=](Of const& of, int) { return batch_norm(of); });
  add_columns<R>(add, "batch_norm_gradient", 3, batch_norm, [](Of const& of, auto const& result) {
    return ops::batch_norm_gradient(of.input, of.weight, result.statistics, of.gradient);
  });
  add_columns<R>(add, "l2_normalize", 2, nothing, [](Of const& of, int) {
    return ops::l2_normalize(of.input);
  });
  add_columns<R>(add, "l2_normalize_gradient", 3, nothing, [](Of const& of, int) {
    return ops::l2_normalize_gradient(of.input, of.gradient);
  });
}

template <ms::Runtime R>
void add_reductions(AddCase<R> const& add) {
  using Of = Columns<R>;
  auto const nothing = [](Of const&) { return 0; };
  for (std::int64_t const axis : {1, 0}) {
    auto const case_of = [&](std::string_view name, auto function) {
      auto const whole = fmt::format("{}/{}", name, axis == 1 ? "rows" : "columns");
      add_columns<R>(add, whole.c_str(), 1, nothing, [=](Of const& of, int) {
        return function(of.input, axis);
      });
    };
    case_of("sum", [](auto const& input, auto along) { return ops::sum(input, along); });
    case_of("mean", [](auto const& input, auto along) { return ops::mean(input, along); });
    case_of("max", [](auto const& input, auto along) { return ops::max(input, along); });
    case_of("min", [](auto const& input, auto along) { return ops::min(input, along); });
  }
}

template <ms::Runtime R>
void softmax(benchmark::State& state, Lab<R>& lab, std::int64_t width, bool gradient) {
  auto const input = random_tensor(lab, {rows_of_width(lab, width), width});
  auto const output = ops::softmax(input);
  lab.bench().measure_cold(state, {.bytes = (gradient ? 3 : 2) * bytes_of(input)}, [&] {
    benchmark::DoNotOptimize(gradient ? ops::softmax_gradient(output, input) : ops::softmax(input));
  });
}

template <ms::RealElement T, ms::Runtime R>
void layer_norm_gradient(benchmark::State& state, Lab<R>& lab, std::int64_t width) {
  auto const input = random_tensor<T>(lab, {rows_of_width(lab, width), width}, 0);
  auto const gradient = random_tensor<T>(lab, input.shape(), 1);
  auto const weight = random_tensor(lab, {width}, 2);
  auto const result = ops::layer_norm(input, weight, random_tensor(lab, {width}, 3));
  lab.bench().measure_cold(state, {.bytes = 3 * bytes_of(input)}, [&] {
    benchmark::DoNotOptimize(ops::layer_norm_gradient(input, weight, result, gradient));
  });
}

}  // namespace

template <ms::Runtime R>
void add_row_cases(AddCase<R> const& add) {
  add_normalisations(add);
  add_reductions(add);
  for (auto const width : axes::Reductions::kWidths) {
    add(fmt::format("softmax/width:{}", width),
        [=](auto& state, auto& lab) { softmax(state, lab, width, false); });
    add(fmt::format("softmax_gradient/width:{}", width),
        [=](auto& state, auto& lab) { softmax(state, lab, width, true); });
    add(fmt::format("layer_norm_gradient/float32/width:{}", width),
        [=](auto& state, auto& lab) { layer_norm_gradient<float>(state, lab, width); });
    add(fmt::format("layer_norm_gradient/bfloat16/width:{}", width),
        [=](auto& state, auto& lab) { layer_norm_gradient<ms::bfloat16>(state, lab, width); });
  }
}

template void add_row_cases(AddCase<ms::Host> const& add);
#if MSSTREAM_CUDA
template void add_row_cases(AddCase<ms::Cuda> const& add);
#endif

}  // namespace benchmarks::table
