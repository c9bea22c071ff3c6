// SPDX-License-Identifier: Apache-2.0
#include "device_bench.hpp"
#include "suite.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#if MSSTREAM_CUDA
#include "ops/table/bare_product.hpp"
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

/// Benchmarks of a dense layer of bfloat16 with bias and GELU, compared with the bare products of
/// its shapes: those of cuBLASLt, without bias, activation and their gradients, each with the
/// fastest of 16 algorithms. Bare products are measured between those of the layer, so that
/// anything that slows the machine affects both.
namespace benchmarks {
namespace {

using Sizes = axes::Table;
using Half = ms::bfloat16;

/// The parts of a layer's work in a step.
enum class Part : std::uint8_t { forward, backward, both };
constexpr Part kParts[] = {Part::forward, Part::backward, Part::both};

[[nodiscard]] std::string_view name_of(Part part) {
  return part == Part::forward ? "forward" : part == Part::backward ? "backward" : "both";
}

/// A layer, an input, and a gradient of its output.
template <ms::Runtime R>
struct GeluLayer {
  using Matrix = ms::Tensor<Half, R>;
  static constexpr auto kGelu = ms::ops::Activation::gelu_tanh;

  ms::Device<R> device;
  std::int64_t batch;
  Matrix input = drawn_matrix(0, {batch, Sizes::kInputs}, 1.0F);
  Matrix weight = drawn_matrix(1, {Sizes::kInputs, Sizes::kOutputs}, 0.05F);
  Matrix bias = drawn_matrix(2, {Sizes::kOutputs}, 1.0F);
  Matrix gradient = drawn_matrix(3, {batch, Sizes::kOutputs}, 1.0F);
  ms::ops::DenseOutput<R, Half> made = forward();

  [[nodiscard]] Matrix drawn_matrix(std::uint64_t number,
                                    ms::Shape const& shape,
                                    float most) const {
    return ms::ops::random_uniform<Half>(device, shape, ms::RandomKey(3, number), -most, most);
  }
  [[nodiscard]] ms::ops::DenseOutput<R, Half> forward() const {
    return ms::ops::dense_for_gradient(input, weight, bias, kGelu);
  }
  void run(Part part) const {
    if (part != Part::backward) {
      benchmark::DoNotOptimize(forward());
    }
    if (part != Part::forward) {
      benchmark::DoNotOptimize(
          ms::ops::dense_gradient(input, weight, made.saved, kGelu, gradient, true));
    }
  }
  [[nodiscard]] double flops(Part part) const {
    double const of_product =
        2.0 * static_cast<double>(batch) * static_cast<double>(Sizes::kInputs * Sizes::kOutputs);
    return of_product * (part == Part::forward ? 1 : part == Part::backward ? 2 : 3);
  }
};

#if MSSTREAM_CUDA

/// The products of a layer's shapes by cuBLASLt alone.
class BareProducts {
 public:
  explicit BareProducts(GeluLayer<ms::Cuda> const& layer)
      : workspace_(layer.device, {Sizes::kWorkspaceBytes}),
        output_(layer.device, layer.gradient.shape()),
        input_gradient_(layer.device, layer.input.shape()),
        weight_gradient_(layer.device, layer.weight.shape()) {
    table::BareProduct of{.rows = layer.batch,
                          .inner = Sizes::kInputs,
                          .columns = Sizes::kOutputs,
                          .dtype = ms::dtype_of<Half>,
                          .left = layer.input.data(),
                          .right = layer.weight.data(),
                          .product = output_.data(),
                          .workspace = workspace_.data(),
                          .workspace_bytes = workspace_.bytes(),
                          .algorithms = 16};
    auto const stream = layer.device.current_group().compute().native();
    forward_ = table::bare_product(stream, of);

    auto of_input = of;
    of_input.inner = Sizes::kOutputs;
    of_input.columns = Sizes::kInputs;
    of_input.left = layer.gradient.data();
    of_input.product = input_gradient_.data();
    of_input.transpose_right = true;
    of_input_ = table::bare_product(stream, of_input);

    auto of_weight = of;
    of_weight.rows = Sizes::kInputs;
    of_weight.inner = layer.batch;
    of_weight.right = layer.gradient.data();
    of_weight.product = weight_gradient_.data();
    of_weight.transpose_left = true;
    of_weight.is_float32 = true;
    of_weight_ = table::bare_product(stream, of_weight);
  }
  void run(Part part) const {
    if (part != Part::backward) {
      forward_();
    }
    if (part != Part::forward) {
      of_input_();
      of_weight_();
    }
  }

 private:
  ms::Tensor<std::uint8_t, ms::Cuda> workspace_;
  ms::Tensor<Half, ms::Cuda> output_;
  ms::Tensor<Half, ms::Cuda> input_gradient_;
  ms::Tensor<float, ms::Cuda> weight_gradient_;
  std::function<void()> forward_;
  std::function<void()> of_input_;
  std::function<void()> of_weight_;
};

/// Reports the time of the layer, that of the bare products, `bare_us`, and the median of their
/// ratios, `of_bare`: 1 if the layer takes no more time than they do.
void dense_gelu(benchmark::State& state, DeviceBench<ms::Cuda>& bench, Part part) {
  GeluLayer<ms::Cuda> const layer{bench.device(), Sizes::kBatch};
  BareProducts const products(layer);
  auto const ours = [&] { return bench.warm_ns([&] { layer.run(part); }); };
  auto const bare = [&] { return bench.warm_ns([&] { products.run(part); }); };
  ours();
  bare();
  std::vector<double> times;
  std::vector<double> bare_times;
  std::vector<double> ratios;
  for ([[maybe_unused]] auto _ : state) {
    bare_times.push_back(bare());
    times.push_back(ours());
    ratios.push_back(bare_times.back() / times.back());
    state.SetIterationTime(times.back() * 1e-9);
  }
  auto const median = [](std::vector<double>& values) {
    auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  state.counters["bare_us"] = median(bare_times) * 1e-3;
  state.counters["of_bare"] = median(ratios);
  state.counters["TFLOPs"] = layer.flops(part) / median(times) * 1e-3;
}

#endif

void dense_gelu(benchmark::State& state, DeviceBench<ms::Host>& bench, Part part) {
  GeluLayer<ms::Host> const layer{bench.device(), bench.rows(Sizes::kBatch)};
  bench.measure(state, {.flops = layer.flops(part)}, [&] { layer.run(part); });
}

template <ms::Runtime R>
void add_all(int runs, std::int64_t divisor) {
  for (auto const part : kParts) {
    add(fmt::format("dense_gelu/{}/{}", R::name, name_of(part)),
        runs,
        [=](benchmark::State& state) {
          DeviceBench<R> bench(divisor);
          dense_gelu(state, bench, part);
        });
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(1, axes::kHostDivisor);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  constexpr int kRuns = 15;
  add_all<ms::Cuda>(kRuns, 1);
#endif
}

}  // namespace benchmarks
