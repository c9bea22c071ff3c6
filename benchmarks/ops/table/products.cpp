// SPDX-License-Identifier: Apache-2.0
#include "ops/table/cases.hpp"

#if MSSTREAM_CUDA
#include "ops/table/bare_product.hpp"
#endif

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Cases of products of matrices, attention, mixtures of experts and factorization machines.
namespace benchmarks::table {
namespace {

using Sizes = axes::Table;
namespace ops = ms::ops;

/// A product and its two gradients.
enum class Product : std::uint8_t { forward, left_gradient, right_gradient };
constexpr Product kProducts[] = {Product::forward, Product::left_gradient, Product::right_gradient};

[[nodiscard]] std::string_view name_of(Product which) {
  constexpr std::string_view kNames[] = {"matmul", "matmul_left_gradient", "matmul_right_gradient"};
  return kNames[static_cast<std::size_t>(which)];
}

/// The operands of a product, the gradient of its result, and the number of its operations.
template <ms::RealElement T, ms::Runtime R>
struct Matrices {
  std::int64_t batch;
  ms::Tensor<T, R> left;
  ms::Tensor<T, R> right;
  ms::Tensor<T, R> gradient;
  double flops;

  explicit Matrices(Lab<R>& lab)
      : batch(lab.rows(Sizes::kBatch)),
        left(random_tensor<T>(lab, {batch, Sizes::kInputs}, 0)),
        right(random_tensor<T>(lab, {Sizes::kInputs, Sizes::kOutputs}, 1)),
        gradient(random_tensor<T>(lab, {batch, Sizes::kOutputs}, 2)),
        flops(2.0 * static_cast<double>(batch * Sizes::kInputs * Sizes::kOutputs)) {}
};

template <ms::RealElement T, ms::Runtime R>
void matmul(benchmark::State& state, Lab<R>& lab, Product which) {
  Matrices<T, R> const of(lab);
  lab.bench().measure(state, {.flops = of.flops}, [&] {
    benchmark::DoNotOptimize(which == Product::forward ? ops::matmul(of.left, of.right)
                             : which == Product::left_gradient
                                 ? ops::matmul_left_gradient(of.left, of.right, {}, of.gradient)
                                 : ops::matmul_right_gradient(of.left, of.right, {}, of.gradient));
  });
}

#if MSSTREAM_CUDA

/// Measures the product that matmul() measures by cuBLASLt alone.
template <ms::RealElement T>
void bare_matmul(benchmark::State& state, Lab<ms::Cuda>& lab, Product which) {
  using Matrix = ms::Tensor<T, ms::Cuda>;
  Matrices<T, ms::Cuda> const of(lab);
  ms::Tensor<std::uint8_t, ms::Cuda> const workspace(lab.device(), {Sizes::kWorkspaceBytes});
  auto const product = [&](Matrix const& left, Matrix const& right, Matrix const& result) {
    bool const transpose_left = which == Product::right_gradient;
    return bare_product(lab.device().current_group().compute().native(),
                        {.rows = result.shape()[0],
                         .inner = left.shape()[transpose_left ? 0 : 1],
                         .columns = result.shape()[1],
                         .dtype = ms::dtype_of<T>,
                         .left = left.data(),
                         .right = right.data(),
                         .product = result.data(),
                         .workspace = workspace.data(),
                         .workspace_bytes = workspace.bytes(),
                         .transpose_left = transpose_left,
                         .transpose_right = which == Product::left_gradient});
  };
  Matrix const result(lab.device(),
                      which == Product::forward         ? of.gradient.shape()
                      : which == Product::left_gradient ? of.left.shape()
                                                        : of.right.shape());
  auto const enqueue = which == Product::forward         ? product(of.left, of.right, result)
                       : which == Product::left_gradient ? product(of.gradient, of.right, result)
                                                         : product(of.left, of.gradient, result);
  lab.bench().measure(state, {.flops = of.flops}, enqueue);
}

#endif

template <ms::RealElement T, ms::Runtime R>
void dense(benchmark::State& state, Lab<R>& lab, ops::Activation activation, bool backward) {
  Matrices<T, R> const of(lab);
  auto const bias = random_tensor<T>(lab, {Sizes::kOutputs}, 3);
  auto const saved = ops::dense_for_gradient(of.left, of.right, bias, activation).saved;
  lab.bench().measure(state, {.flops = (backward ? 2 : 1) * of.flops}, [&] {
    if (backward) {
      benchmark::DoNotOptimize(
          ops::dense_gradient(of.left, of.right, saved, activation, of.gradient, true));
    } else {
      benchmark::DoNotOptimize(ops::dense(of.left, of.right, bias, activation));
    }
  });
}

/// Measures a layer whose products are of 8-bit floats, with the quantisation of its operands.
template <ms::RealElement T, ms::Runtime R>
void dense_fp8(benchmark::State& state, Lab<R>& lab) {
  Matrices<T, R> const of(lab);
  auto const bias = random_tensor<T>(lab, {Sizes::kOutputs}, 3);
  lab.bench().measure(state, {.flops = of.flops}, [&] {
    benchmark::DoNotOptimize(ops::dense_fp8(of.left, of.right, bias, ops::Activation::relu));
  });
}

template <ms::RealElement T, ms::Runtime R>
void add_products(AddCase<R> const& add, std::string_view dtype) {
  for (auto const which : kProducts) {
    auto const name = fmt::format("{}/{}", name_of(which), dtype);
    add(name, [=](auto& state, auto& lab) { matmul<T>(state, lab, which); });
#if MSSTREAM_CUDA
    if constexpr (std::is_same_v<R, ms::Cuda>) {
      add(name + "/bare", [=](auto& state, auto& lab) { bare_matmul<T>(state, lab, which); });
    }
#endif
  }
  for (auto const& [activation, suffix] : {std::pair(ops::Activation::relu, ""),
                                           std::pair(ops::Activation::gelu_tanh, "/gelu_tanh")}) {
    for (bool const backward : {false, true}) {
      add(fmt::format("dense{}/{}{}", backward ? "_gradient" : "", dtype, suffix),
          [=, of = activation](auto& state, auto& lab) { dense<T>(state, lab, of, backward); });
    }
  }
}

/// Queries, keys and values of one shape, the gradients of scores and results, and the number of
/// operations of one of their products.
template <ms::RealElement T, ms::Runtime R>
struct Attended {
  ms::Tensor<T, R> queries;
  ms::Tensor<T, R> keys;
  ms::Tensor<T, R> values;
  ms::Tensor<T, R> gradient;
  double flops;

  explicit Attended(Lab<R>& lab)
      : queries(
            random_tensor<T>(lab, {lab.rows(Sizes::kAttended), Sizes::kKeys, Sizes::kKeyWidth}, 0)),
        keys(random_tensor<T>(lab, queries.shape(), 1)),
        values(random_tensor<T>(lab, queries.shape(), 2)),
        gradient(random_tensor<T>(lab, queries.shape(), 3)),
        flops(2.0 * static_cast<double>(queries.count() * Sizes::kKeys)) {}
};

template <ms::RealElement T, ms::Runtime R>
void add_attention(AddCase<R> const& add, std::string_view dtype) {
  using Of = Attended<T, R>;
  auto const case_of = [&](std::string_view name, int products, auto function) {
    add(fmt::format("{}/{}", name, dtype), [=](benchmark::State& state, Lab<R>& lab) {
      Of const of(lab);
      auto const scores = ops::attention_scores(of.queries, of.keys);
      lab.bench().measure(state, {.flops = products * of.flops}, [&] { function(of, scores); });
    });
  };
  case_of("attention_scores", 1, [](Of const& of, auto const&) {
    benchmark::DoNotOptimize(ops::attention_scores(of.queries, of.keys));
  });
  case_of("attention_scores_gradient", 2, [](Of const& of, auto const& scores) {
    benchmark::DoNotOptimize(ops::attention_scores_gradient(of.queries, of.keys, scores, scores));
  });
  case_of("attention", 2, [](Of const& of, auto const&) {
    benchmark::DoNotOptimize(ops::attention(of.queries, of.keys, of.values));
  });
  case_of("attention_gradient", 4, [](Of const& of, auto const& scores) {
    auto const of_scores = ops::matmul_left_gradient(scores, of.values, {}, of.gradient);
    benchmark::DoNotOptimize(ops::matmul_right_gradient(scores, of.values, {}, of.gradient));
    benchmark::DoNotOptimize(
        ops::attention_scores_gradient(of.queries, of.keys, scores, of_scores));
  });
}

/// Measures the mixtures of all experts by several gates, or their gradients. Bytes of the
/// gradients count the experts, the mixtures' gradient and the weights, which are read, and the
/// gradients of experts and logits.
template <ms::Runtime R>
void mix_experts(benchmark::State& state, Lab<R>& lab, bool backward) {
  auto const batch = lab.rows(Sizes::kMixedBatch);
  std::vector const experts{random_tensor(lab, {Sizes::kExperts, batch, Sizes::kExpertWidth}, 0)};
  auto const logits = random_tensor(lab, {Sizes::kGates, batch, Sizes::kExperts}, 1);
  std::vector<int> all(Sizes::kExperts);
  std::iota(all.begin(), all.end(), 0);
  ops::Gates const gates(Sizes::kGates, all);
  std::vector<ops::GateLogits<R>> const of_logits{{logits, gates}};
  auto const mixture = ops::mix_experts(experts, of_logits);
  std::vector<ops::GateLogits<R>> const weights{{mixture.weights.front(), gates}};
  std::vector<bool> const wanted{true};
  double const bytes = (backward ? 2 : 1) * bytes_of(experts.front()) + 2 * bytes_of(logits) +
                       bytes_of(mixture.output);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    if (backward) {
      benchmark::DoNotOptimize(ops::mix_experts_gradient(experts, weights, mixture.output, wanted));
    } else {
      benchmark::DoNotOptimize(ops::mix_experts(experts, of_logits));
    }
  });
}

template <ms::RealElement T, ms::Runtime R>
void factorization_machine(benchmark::State& state, Lab<R>& lab, bool backward) {
  auto const batch = lab.rows(Sizes::kFactorizedBatch);
  auto const embeddings = random_tensor<T>(lab, {batch, axes::Kernels::kTables, Sizes::kWidth}, 0);
  auto const gradient = random_tensor<T>(lab, {batch, 1}, 1);
  double const bytes = (backward ? 2 : 1) * bytes_of(embeddings) + bytes_of(gradient);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(backward ? ops::factorization_machine_gradient(embeddings, gradient)
                                      : ops::factorization_machine(embeddings));
  });
}

}  // namespace

template <ms::Runtime R>
void add_product_cases(AddCase<R> const& add) {
  auto const add_type = [&]<class T>(std::type_identity<T>, std::string_view dtype) {
    add_products<T>(add, dtype);
    add_attention<T>(add, dtype);
    add(fmt::format("factorization_machine/{}", dtype),
        [](auto& state, auto& lab) { factorization_machine<T>(state, lab, false); });
    add(fmt::format("factorization_machine_gradient/{}", dtype),
        [](auto& state, auto& lab) { factorization_machine<T>(state, lab, true); });
  };
  add_type(std::type_identity<float>{}, "float32");
  add_type(std::type_identity<ms::bfloat16>{}, "bfloat16");
  add_type(std::type_identity<ms::float16>{}, "float16");
  add("dense_fp8/bfloat16", [](auto& state, auto& lab) { dense_fp8<ms::bfloat16>(state, lab); });
  add("mix_experts", [](auto& state, auto& lab) { mix_experts(state, lab, false); });
  add("mix_experts_gradient", [](auto& state, auto& lab) { mix_experts(state, lab, true); });
}

template void add_product_cases(AddCase<ms::Host> const& add);
#if MSSTREAM_CUDA
template void add_product_cases(AddCase<ms::Cuda> const& add);
#endif

}  // namespace benchmarks::table
