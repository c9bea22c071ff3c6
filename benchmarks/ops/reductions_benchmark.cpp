// SPDX-License-Identifier: Apache-2.0
#include "device_bench.hpp"
#include "drawn.hpp"
#include "suite.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

/// Benchmarks of reductions of rows and whole tensors, at widths from those of embeddings to those
/// of layers. Bytes count the data that an operation must read and write.
namespace benchmarks {
namespace {

using Sizes = axes::Reductions;

template <ms::RealElement T, ms::Runtime R>
void layer_norm(benchmark::State& state, DeviceBench<R>& bench, std::int64_t width, bool backward) {
  auto const& device = bench.device();
  auto const rows = bench.rows(Sizes::kElements / width);
  auto const input = ms::ops::cast<T>(filled(device, {rows, width}));
  auto const output_gradient = ms::ops::cast<T>(filled(device, {rows, width}));
  auto const weight = filled(device, {width});
  auto const bias = filled(device, {width});
  auto const result = ms::ops::layer_norm(input, weight, bias);
  double const bytes = static_cast<double>(rows * width) * sizeof(T) * (backward ? 3 : 2);
  bench.measure(state, {.bytes = bytes}, [&] {
    if (backward) {
      benchmark::DoNotOptimize(
          ms::ops::layer_norm_gradient(input, weight, result, output_gradient));
    } else {
      benchmark::DoNotOptimize(ms::ops::layer_norm(input, weight, bias));
    }
  });
}

template <ms::Runtime R>
void softmax(benchmark::State& state, DeviceBench<R>& bench, std::int64_t width) {
  auto const rows = bench.rows(Sizes::kElements / width);
  auto const input = filled(bench.device(), {rows, width});
  double const bytes = static_cast<double>(rows * width) * sizeof(float) * 2;
  bench.measure(
      state, {.bytes = bytes}, [&] { benchmark::DoNotOptimize(ms::ops::softmax(input)); });
}

/// The options of a softmax cross-entropy that are measured.
enum class CrossEntropy : std::uint8_t { plain, sample_weight, candidate_ids };

template <ms::Runtime R>
void cross_entropy(benchmark::State& state,
                   DeviceBench<R>& bench,
                   std::int64_t width,
                   CrossEntropy what) {
  auto const& device = bench.device();
  auto const rows = bench.rows(Sizes::kElements / width);
  auto const logits = filled(device, {rows, width});
  auto const classes = put_ids<std::int64_t>(device, drawn(rows, width, Draw::uniform), {rows});
  ms::ops::CrossEntropyOptions<R> options;
  if (what == CrossEntropy::sample_weight) {
    options.sample_weight = filled(device, {rows});
  } else if (what == CrossEntropy::candidate_ids) {
    options.candidate_ids =
        put_ids<std::int64_t>(device, drawn(width, width, Draw::power_law), {width});
  }
  double const bytes = static_cast<double>(rows * width) * sizeof(float) * 2;
  bench.measure(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(ms::ops::softmax_cross_entropy(logits, classes, options));
  });
}

template <ms::Runtime R>
void sum(benchmark::State& state, DeviceBench<R>& bench) {
  auto const input = filled(bench.device(), {bench.rows(Sizes::kElements)});
  double const bytes = static_cast<double>(input.count()) * sizeof(float);
  bench.measure(state, {.bytes = bytes}, [&] { benchmark::DoNotOptimize(ms::ops::sum(input)); });
}

template <ms::Runtime R>
void sum_along(benchmark::State& state,
               DeviceBench<R>& bench,
               std::int64_t width,
               std::int64_t axis) {
  auto const rows = bench.rows(Sizes::kElements / width);
  auto const input = filled(bench.device(), {rows, width});
  double const bytes = static_cast<double>(rows * width) * sizeof(float);
  bench.measure(
      state, {.bytes = bytes}, [&] { benchmark::DoNotOptimize(ms::ops::sum(input, axis)); });
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  auto const add_one = [divisor](std::string const& what, auto function) {
    add(fmt::format("reductions/{}/{}", R::name, what), Sizes::kRuns, [=](benchmark::State& state) {
      DeviceBench<R> bench(divisor);
      function(state, bench);
    });
  };
  for (auto const width : Sizes::kWidths) {
    auto const add_type = [&]<class T>(std::type_identity<T>, std::string_view type) {
      add_one(fmt::format("layer_norm/forward/{}width:{}", type, width),
              [=](auto& state, auto& bench) { layer_norm<T>(state, bench, width, false); });
      add_one(fmt::format("layer_norm/backward/{}width:{}", type, width),
              [=](auto& state, auto& bench) { layer_norm<T>(state, bench, width, true); });
    };
    add_type(std::type_identity<float>{}, "");
    add_type(std::type_identity<ms::bfloat16>{}, "bfloat16/");
    add_one(fmt::format("softmax/width:{}", width),
            [=](auto& state, auto& bench) { softmax<R>(state, bench, width); });
    for (auto const& [name, options] : {std::pair("plain", CrossEntropy::plain),
                                        std::pair("sample_weight", CrossEntropy::sample_weight),
                                        std::pair("candidate_ids", CrossEntropy::candidate_ids)}) {
      add_one(fmt::format("cross_entropy/{}/width:{}", name, width),
              [=](auto& state, auto& bench) { cross_entropy<R>(state, bench, width, options); });
    }
    add_one(fmt::format("sum/rows/width:{}", width),
            [=](auto& state, auto& bench) { sum_along<R>(state, bench, width, 1); });
    add_one(fmt::format("sum/columns/width:{}", width),
            [=](auto& state, auto& bench) { sum_along<R>(state, bench, width, 0); });
  }
  add_one("sum/all", [](auto& state, auto& bench) { sum<R>(state, bench); });
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
