// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/any_elementwise.hpp"
#include "ops/table/cases.hpp"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <vector>

/// Cases of the operations that have forms of their own for half precision: functions of elements
/// and their gradients, softmax, sums and products, matrices side by side, and mixtures of experts.
namespace benchmarks::table {
namespace {

using Sizes = axes::Table;
using Function = ms::ops::kernels::UnaryFunction;
namespace ops = ms::ops;

/// Two matrices of one shape.
template <ms::RealElement T, ms::Runtime R>
struct Pair {
  ms::Tensor<T, R> x;
  ms::Tensor<T, R> y;
};

/// Adds a case of a function of a Pair, which reads and writes as many tensors as `moved` says.
template <ms::RealElement T, ms::Runtime R, class Call>
void add_case(AddCase<R> const& add, std::string_view name, int moved, Call call) {
  add(fmt::format("{}/{}", name, ms::name_of(ms::dtype_of<T>)),
      [=](benchmark::State& state, Lab<R>& lab) {
        ms::Shape const shape{rows_of_width(lab, Sizes::kWidth), Sizes::kWidth};
        Pair<T, R> const of{random_tensor<T>(lab, shape, 0), random_tensor<T>(lab, shape, 1)};
        lab.bench().measure_cold(state, {.bytes = moved * bytes_of(of.x)}, [&] {
          auto result = call(of);
          benchmark::DoNotOptimize(result);
        });
      });
}

/// Adds a function of one element and its gradient, which reads two tensors and writes one.
template <ms::RealElement T, ms::Runtime R, class Call>
void add_function(AddCase<R> const& add, char const* name, Function function, Call call) {
  add_case<T>(add, name, 2, [call](Pair<T, R> const& of) { return call(of.x); });
  add_case<T>(add, fmt::format("{}_gradient", name), 3, [=](Pair<T, R> const& of) {
    return ops::detail::unary_gradient(
        name, function, of.x.any(), of.y.any(), std::source_location::current());
  });
}

template <ms::RealElement T, ms::Runtime R>
void add_functions(AddCase<R> const& add) {
  auto const function = [&](char const* name, Function kernel, auto call) {
    add_function<T, R>(add, name, kernel, call);
  };
  function("relu", Function::relu, [](auto const& x) { return ops::relu(ms::no_tape, x); });
  function("gelu", Function::gelu, [](auto const& x) { return ops::gelu(ms::no_tape, x); });
  function("gelu_tanh", Function::gelu_tanh, [](auto const& x) {
    return ops::gelu_tanh(ms::no_tape, x);
  });
  function("silu", Function::silu, [](auto const& x) { return ops::silu(ms::no_tape, x); });
  function("tanh", Function::tanh, [](auto const& x) { return ops::tanh(ms::no_tape, x); });
  function(
      "sigmoid", Function::sigmoid, [](auto const& x) { return ops::sigmoid(ms::no_tape, x); });
  add_case<T>(
      add, "add", 3, [](Pair<T, R> const& of) { return ops::add(ms::no_tape, of.x, of.y); });
  add_case<T>(add, "multiply", 3, [](Pair<T, R> const& of) {
    return ops::multiply(ms::no_tape, of.x, of.y);
  });
  add_case<T>(add, "multiply_gradient", 5, [](Pair<T, R> const& of) {
    return ops::detail::multiply_gradient(
        of.x.any(), of.y.any(), of.x.any(), {}, std::source_location::current());
  });
}

template <ms::RealElement T, ms::Runtime R>
void softmax(benchmark::State& state, Lab<R>& lab, std::int64_t width, bool backward) {
  auto const input = random_tensor<T>(lab, {rows_of_width(lab, width), width});
  auto const output = ops::softmax(ms::no_tape, input);
  lab.bench().measure_cold(state, {.bytes = (backward ? 3 : 2) * bytes_of(input)}, [&] {
    auto const here = std::source_location::current();
    auto result = backward ? ops::detail::softmax_gradient(output.any(), input.any(), here)
                           : ops::softmax(ms::no_tape, input).any();
    benchmark::DoNotOptimize(result);
  });
}

/// Measures joining blocks side by side to one matrix.
template <ms::RealElement T, ms::Runtime R>
void concat(benchmark::State& state, Lab<R>& lab) {
  auto const rows = rows_of_width(lab, Sizes::kBlocks * Sizes::kWidth);
  std::vector<ms::Tensor<T, R>> parts;
  for (std::size_t block = 0; block < Sizes::kBlocks; ++block) {
    parts.push_back(random_tensor<T>(lab, {rows, Sizes::kWidth}, block));
  }
  auto const packed = ops::concat(ms::no_tape, parts);
  lab.bench().measure_cold(state, {.bytes = 2 * bytes_of(packed)}, [&] {
    benchmark::DoNotOptimize(ops::concat(ms::no_tape, parts));
  });
}

/// Measures the mixtures of all experts by several gates. Bytes count experts, logits, the weights
/// that the softmax of these gives, and the mixtures.
template <ms::RealElement T, ms::Runtime R>
void mix_experts(benchmark::State& state, Lab<R>& lab) {
  auto const batch = lab.rows(Sizes::kMixedBatch);
  std::vector const experts{
      random_tensor<T>(lab, {Sizes::kExperts, batch, Sizes::kExpertWidth}, 0)};
  auto const logits = random_tensor(lab, {Sizes::kGates, batch, Sizes::kExperts}, 1);
  std::vector<int> all(Sizes::kExperts);
  std::iota(all.begin(), all.end(), 0);
  std::vector<ops::GateLogits<R>> const gates{{logits, ops::Gates(Sizes::kGates, all)}};
  auto const mixture = ops::mix_experts(ms::no_tape, experts, gates);
  double const bytes = bytes_of(experts.front()) + 2 * bytes_of(logits) + bytes_of(mixture);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(ops::mix_experts(ms::no_tape, experts, gates));
  });
}

template <ms::RealElement T, ms::Runtime R>
void add_type(AddCase<R> const& add) {
  auto const dtype = ms::name_of(ms::dtype_of<T>);
  add_functions<T>(add);
  add(fmt::format("concat/{}", dtype), [](auto& state, auto& lab) { concat<T>(state, lab); });
  add(fmt::format("mix_experts/{}", dtype),
      [](auto& state, auto& lab) { mix_experts<T>(state, lab); });
  for (auto const width : axes::Reductions::kWidths) {
    add(fmt::format("softmax/{}/width:{}", dtype, width),
        [=](auto& state, auto& lab) { softmax<T>(state, lab, width, false); });
    add(fmt::format("softmax_gradient/{}/width:{}", dtype, width),
        [=](auto& state, auto& lab) { softmax<T>(state, lab, width, true); });
  }
}

}  // namespace

template <ms::Runtime R>
void add_half_cases(AddCase<R> const& add) {
  add_type<ms::bfloat16>(add);
  add_type<ms::float16>(add);
}

template void add_half_cases(AddCase<ms::Host> const& add);
#if MSSTREAM_CUDA
template void add_half_cases(AddCase<ms::Cuda> const& add);
#endif

}  // namespace benchmarks::table
