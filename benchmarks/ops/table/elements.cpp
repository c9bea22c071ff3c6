// SPDX-License-Identifier: Apache-2.0
#include "ops/table/cases.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

/// Cases of functions of elements, their gradients, and rearranged matrices.
namespace benchmarks::table {
namespace {

using Sizes = axes::Table;
namespace ops = ms::ops;

/// The operands of a function of elements, in one shape.
template <ms::Runtime R>
struct Operands {
  ms::Tensor<float, R> x;
  ms::Tensor<float, R> y;
  ms::Tensor<float, R> z;
};

/// Adds a case of a function of Operands, which reads and writes as many tensors as `moved` says.
template <ms::Runtime R, class Function>
void add_elements(
    AddCase<R> const& add, char const* name, int moved, float low, Function function) {
  add(name, [=](benchmark::State& state, Lab<R>& lab) {
    ms::Shape const shape{rows_of_width(lab, Sizes::kWidth), Sizes::kWidth};
    Operands<R> const of{random_tensor(lab, shape, 0, low),
                         random_tensor(lab, shape, 1, low),
                         random_tensor(lab, shape, 2, low)};
    lab.bench().measure_cold(
        state, {.bytes = moved * bytes_of(of.x)}, [&] { benchmark::DoNotOptimize(function(of)); });
  });
}

/// The least operand of functions of positive numbers, and of functions of any numbers.
constexpr float kPositive = 0.125F;
constexpr float kAny = -1.0F;

template <ms::Runtime R>
void add_arithmetic(AddCase<R> const& add) {
  using Of = Operands<R>;
  auto const case_of = [&](char const* name, int moved, auto function) {
    add_elements<R>(add, name, moved, kPositive, function);
  };
  case_of("add", 3, [](Of const& of) { return ops::add(of.x, of.y); });
  case_of("subtract", 3, [](Of const& of) { return ops::subtract(of.x, of.y); });
  case_of("multiply", 3, [](Of const& of) { return ops::multiply(of.x, of.y); });
  case_of("divide", 3, [](Of const& of) { return ops::divide(of.x, of.y); });
  case_of("multiply_gradient", 5, [](Of const& of) {
    return ops::multiply_gradient(of.x, of.y, of.z);
  });
  case_of("divide_gradient", 5, [](Of const& of) {
    return ops::divide_gradient(of.x.shape(), of.y, of.x, of.z);
  });
  case_of("relu", 2, [](Of const& of) { return ops::relu(of.x); });
  case_of("relu_gradient", 3, [](Of const& of) { return ops::relu_gradient(of.x, of.y); });
  case_of("exp", 2, [](Of const& of) { return ops::exp(of.x); });
  case_of("exp_gradient", 3, [](Of const& of) { return ops::exp_gradient(of.x, of.y); });
  case_of("log", 2, [](Of const& of) { return ops::log(of.x); });
  case_of("sqrt", 2, [](Of const& of) { return ops::sqrt(of.x); });
  case_of("sigmoid", 2, [](Of const& of) { return ops::sigmoid(of.x); });
  case_of("add_row", 2, [](Of const& of) {
    return ops::add(of.x, of.y.rows(0, 1).reshaped({Sizes::kWidth}));
  });
  case_of("multiply_row_gradient", 3, [](Of const& of) {
    return ops::multiply_gradient(of.x, of.y.rows(0, 1).reshaped({Sizes::kWidth}), of.z);
  });
}

template <ms::Runtime R>
void add_activations(AddCase<R> const& add) {
  using Of = Operands<R>;
  auto const case_of = [&](char const* name, int moved, auto function) {
    add_elements<R>(add, name, moved, kAny, function);
  };
  case_of("tanh", 2, [](Of const& of) { return ops::tanh(of.x); });
  case_of("tanh_gradient", 3, [](Of const& of) { return ops::tanh_gradient(of.x, of.y); });
  case_of("gelu", 2, [](Of const& of) { return ops::gelu(of.x); });
  case_of("gelu_gradient", 3, [](Of const& of) { return ops::gelu_gradient(of.x, of.y); });
  case_of("gelu_tanh", 2, [](Of const& of) { return ops::gelu_tanh(of.x); });
  case_of(
      "gelu_tanh_gradient", 3, [](Of const& of) { return ops::gelu_tanh_gradient(of.x, of.y); });
  case_of("silu", 2, [](Of const& of) { return ops::silu(of.x); });
  case_of("silu_gradient", 3, [](Of const& of) { return ops::silu_gradient(of.x, of.y); });
  case_of("clamp", 2, [](Of const& of) { return ops::clamp(of.x, -0.5F, 0.5F); });
  case_of("clamp_gradient", 3, [](Of const& of) {
    return ops::clamp_gradient(of.x, -0.5F, 0.5F, of.y);
  });
  case_of("add_scalar", 2, [](Of const& of) { return ops::add_scalar(of.x, 0.5F); });
}

template <ms::Runtime R>
void transpose(benchmark::State& state, Lab<R>& lab) {
  auto const input = random_tensor(lab, {rows_of_width(lab, Sizes::kSquare), Sizes::kSquare});
  lab.bench().measure_cold(state, {.bytes = 2 * bytes_of(input)}, [&] {
    benchmark::DoNotOptimize(ops::transpose(input));
  });
}

/// Measures joining blocks side by side to one matrix, or splitting it into them.
template <ms::Runtime R>
void blocks(benchmark::State& state, Lab<R>& lab, bool joins) {
  auto const rows = rows_of_width(lab, Sizes::kBlocks * Sizes::kWidth);
  std::vector<ms::Tensor<float, R>> parts;
  for (std::size_t block = 0; block < Sizes::kBlocks; ++block) {
    parts.push_back(random_tensor(lab, {rows, Sizes::kWidth}, block));
  }
  auto const packed = ops::concat(parts);
  std::vector<std::int64_t> const widths(Sizes::kBlocks, Sizes::kWidth);
  std::vector<bool> const wanted(Sizes::kBlocks, true);
  lab.bench().measure_cold(state, {.bytes = 2 * bytes_of(packed)}, [&] {
    if (joins) {
      benchmark::DoNotOptimize(ops::concat(parts));
    } else {
      benchmark::DoNotOptimize(ops::split(packed, widths, wanted));
    }
  });
}

}  // namespace

template <ms::Runtime R>
void add_element_cases(AddCase<R> const& add) {
  add_arithmetic(add);
  add("concat", [](auto& state, auto& lab) { blocks(state, lab, true); });
  add("split", [](auto& state, auto& lab) { blocks(state, lab, false); });
  add("transpose", [](auto& state, auto& lab) { transpose(state, lab); });
  add_activations(add);
}

template void add_element_cases(AddCase<ms::Host> const& add);
#if MSSTREAM_CUDA
template void add_element_cases(AddCase<ms::Cuda> const& add);
#endif

}  // namespace benchmarks::table
