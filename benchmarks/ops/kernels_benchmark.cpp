// SPDX-License-Identifier: Apache-2.0
#include "device_bench.hpp"
#include "drawn.hpp"
#include "suite.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

/// Benchmarks of layers and updates on the device, compared with a copy on it: the upper bound for
/// operations that only move data.
namespace benchmarks {
namespace {

using Sizes = axes::Kernels;

template <ms::Runtime R>
void dense(benchmark::State& state, DeviceBench<R>& bench, bool backward) {
  constexpr auto relu = ms::ops::Activation::relu;
  auto const& device = bench.device();
  auto const input = filled(device, {Sizes::kDenseBatch, Sizes::kDenseInputs});
  auto const weight = filled(device, {Sizes::kDenseInputs, Sizes::kDenseOutputs});
  auto const bias = filled(device, {Sizes::kDenseOutputs});
  double const flops =
      2.0 * Sizes::kDenseBatch * Sizes::kDenseInputs * Sizes::kDenseOutputs * (backward ? 2 : 1);
  auto const output = ms::ops::dense(input, weight, bias, relu);
  bench.measure(state, {.flops = flops}, [&] {
    if (backward) {
      benchmark::DoNotOptimize(ms::ops::dense_gradient(input, weight, output, relu, output, true));
    } else {
      benchmark::DoNotOptimize(ms::ops::dense(input, weight, bias, relu));
    }
  });
}

/// Measures the gradients of a dense layer's weights and bias, without that of its input.
template <ms::Runtime R>
void dense_weights(benchmark::State& state,
                   DeviceBench<R>& bench,
                   std::array<std::int64_t, 3> const& sizes) {
  auto const batch = bench.rows(sizes[0]);
  auto const inputs = sizes[1];
  auto const outputs = sizes[2];
  auto const& device = bench.device();
  auto const input = filled(device, {batch, inputs});
  auto const weight = filled(device, {inputs, outputs});
  auto const gradient = filled(device, {batch, outputs});
  double const flops = 2.0 * static_cast<double>(batch * inputs * outputs);
  bench.measure(state, {.flops = flops}, [&] {
    benchmark::DoNotOptimize(ms::ops::dense_gradient(
        input, weight, gradient, ms::ops::Activation::none, gradient, false));
  });
}

/// Measures the dot products of all pairs of vectors of each sample, or their gradients.
template <ms::RealElement T, ms::Runtime R>
void interaction(benchmark::State& state,
                 DeviceBench<R>& bench,
                 std::array<std::int64_t, 3> const& sizes,
                 bool backward) {
  auto const batch = bench.rows(sizes[0]);
  auto const features = sizes[1];
  auto const width = sizes[2];
  auto const& device = bench.device();
  auto const dense = ms::ops::cast<T>(filled(device, {batch, width}));
  auto const embeddings = ms::ops::cast<T>(filled(device, {batch, features * width}));
  auto const output = ms::ops::dot_interaction(dense, embeddings);
  double const vectors = bytes_of(dense) + bytes_of(embeddings);
  bench.measure(state, {.bytes = vectors * (backward ? 2 : 1) + bytes_of(output)}, [&] {
    if (backward) {
      benchmark::DoNotOptimize(ms::ops::dot_interaction_gradient(dense, embeddings, output));
    } else {
      benchmark::DoNotOptimize(ms::ops::dot_interaction(dense, embeddings));
    }
  });
}

/// Adam moves seven floats per element: it reads the gradient, and reads and writes the weight and
/// two states.
constexpr double kAdamBytesPerElement = 7 * sizeof(float);
constexpr ms::ops::OptimizerRule kAdam{ms::ops::OptimizerKind::adam, 1e-3F};

template <ms::Runtime R>
void adam_dense(benchmark::State& state, DeviceBench<R>& bench) {
  auto const& device = bench.device();
  ms::ops::StepCounter<R> step(device);
  step.advance(kAdam);
  ms::Shape const shape{bench.rows(Sizes::kRowsPerTable), Sizes::kWidthPerTable};
  std::vector<ms::ops::DenseParameter<R>> parameters;
  for (std::int64_t table = 0; table < Sizes::kTables; ++table) {
    parameters.push_back({filled(device, shape),
                          filled(device, shape),
                          ms::ops::make_state(device, kAdam.kind, shape)});
  }
  double const elements = static_cast<double>(Sizes::kTables * shape.count());
  bench.measure(state, {.bytes = elements * kAdamBytesPerElement}, [&] {
    ms::ops::update_dense(kAdam, step, parameters);
  });
}

template <ms::Runtime R>
void adam_rows(benchmark::State& state, DeviceBench<R>& bench) {
  auto const& device = bench.device();
  ms::ops::StepCounter<R> step(device);
  step.advance(kAdam);
  std::int64_t const rows = bench.rows(Sizes::kTableRows);
  auto const table = filled(device, {rows, Sizes::kTableWidth});
  auto const optimizer_state = ms::ops::make_state(device, kAdam.kind, table.shape());
  auto const bag_count = bench.rows(Sizes::kBags);
  ms::ops::Bags<R> const bags =
      put_ids<std::int64_t>(device, drawn(bag_count, rows, Draw::uniform), {bag_count});
  auto const unique = ms::ops::deduplicate(bags, rows);
  auto const output_gradient = filled(device, {bags.bags(), Sizes::kTableWidth});
  auto const gradients =
      ms::ops::embedding_gradient(bags, unique, rows, ms::ops::Pooling::sum, output_gradient);
  double const elements =
      static_cast<double>(ms::to_host(unique.count).front() * Sizes::kTableWidth);
  bench.measure(state, {.bytes = elements * kAdamBytesPerElement}, [&] {
    ms::ops::update_rows(kAdam, step, table, gradients, optimizer_state);
  });
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  auto const add_one = [divisor](std::string_view what, auto function) {
    add(fmt::format("kernels/{}/{}", R::name, what), Sizes::kRuns, [=](benchmark::State& state) {
      DeviceBench<R> bench(divisor);
      function(state, bench);
    });
  };
  add_one("dense/forward", [](auto& state, auto& bench) { dense<R>(state, bench, false); });
  add_one("dense/backward", [](auto& state, auto& bench) { dense<R>(state, bench, true); });
  for (auto const& sizes : Sizes::kLongDense) {
    add_one(fmt::format("dense/weights/{}x{}x{}", sizes[0], sizes[1], sizes[2]),
            [=](auto& state, auto& bench) { dense_weights<R>(state, bench, sizes); });
  }
  for (auto const& sizes : Sizes::kInteractions) {
    for (bool const backward : {false, true}) {
      auto const what = fmt::format(
          "{}/{}x{}x{}", backward ? "backward" : "forward", sizes[0], sizes[1], sizes[2]);
      add_one("interaction/" + what,
              [=](auto& state, auto& bench) { interaction<float>(state, bench, sizes, backward); });
      add_one("interaction/bfloat16/" + what, [=](auto& state, auto& bench) {
        interaction<ms::bfloat16>(state, bench, sizes, backward);
      });
    }
  }
  add_one("adam/dense", [](auto& state, auto& bench) { adam_dense<R>(state, bench); });
  add_one("adam/rows", [](auto& state, auto& bench) { adam_rows<R>(state, bench); });
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(axes::kHostDivisor);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(1);
#endif
}

}  // namespace benchmarks
