// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

/// How fast the operations run on the device, beside a copy on it: the ceiling of what only moves
/// data.
namespace benchmarks {
namespace {

using Sizes = axes::Kernels;

/// A device to measure on, with its rows divided for a small one.
template <ms::Runtime R>
class Bench {
 public:
  explicit Bench(std::int64_t divisor) : divisor_(divisor), copy_gbps_(measure_copy()) {}
  Bench(Bench const&) = delete;
  Bench& operator=(Bench const&) = delete;
  ~Bench() {
    runtime().destroy_event(begin_);
    runtime().destroy_event(end_);
  }

  [[nodiscard]] ms::Device<R> const& device() const noexcept { return device_; }
  [[nodiscard]] std::int64_t rows(std::int64_t full) const { return full / divisor_; }

  /// Times `operation` on the device's clock; reports GB/s of `bytes` and the share of a copy's, or
  /// TFLOP/s.
  struct Work {
    double bytes = 0;
    double flops = 0;
  };
  void measure(benchmark::State& state, Work const& work, std::function<void()> const& operation) {
    time(operation);
    double total_ns = 0;
    for ([[maybe_unused]] auto _ : state) {
      double const ns = time(operation);
      total_ns += ns;
      state.SetIterationTime(ns * 1e-9);
    }
    double const ns = total_ns / static_cast<double>(state.iterations());
    if (work.bytes > 0) {
      state.counters["GBps"] = work.bytes / ns;
      state.counters["copy_GBps"] = copy_gbps_;
      state.counters["of_copy"] = work.bytes / ns / copy_gbps_;
    }
    if (work.flops > 0) {
      state.counters["TFLOPs"] = work.flops / ns * 1e-3;
    }
  }

  [[nodiscard]] ms::Tensor<std::int64_t, R> uniform_ids(ms::Shape const& shape,
                                                        std::int64_t below) const {
    std::mt19937_64 random(1);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.count()));
    std::generate(ids.begin(), ids.end(), [&] {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
    });
    return ms::to_device(device_, ids, shape);
  }

 private:
  [[nodiscard]] R& runtime() const { return *device_.context()->runtime; }

  /// Nanoseconds an operation.
  double time(std::function<void()> const& operation) {
    auto const stream = device_.current_group().compute().native();
    runtime().record(begin_, stream);
    for (int i = 0; i < Sizes::kOperations; ++i) {
      operation();
    }
    runtime().record(end_, stream);
    runtime().synchronize(end_);
    return runtime().elapsed_ns(begin_, end_) / Sizes::kOperations;
  }

  double measure_copy() {
    ms::Shape const shape{rows(Sizes::kCopyBytes)};
    auto const from = ms::zeros<std::uint8_t>(device_, shape);
    ms::Tensor<std::uint8_t, R> const to(device_, shape);
    auto const copy = [&] { ms::copy(to, from); };
    time(copy);
    return 2 * static_cast<double>(from.bytes()) / time(copy);
  }

  ms::Device<R> device_;
  typename R::native_event begin_ = runtime().create_event(ms::EventTiming::timed);
  typename R::native_event end_ = runtime().create_event(ms::EventTiming::timed);
  std::int64_t divisor_;
  double copy_gbps_;
};

/// Small numbers: zeros would spare the device power, and show clocks that no real data gets.
template <ms::Runtime R>
ms::Tensor<float, R> filled(ms::Device<R> const& device, ms::Shape const& shape) {
  ms::Tensor<float, R> tensor(device, shape);
  ms::fill_bytes(tensor, 0x3C);
  return tensor;
}

template <class T, ms::Runtime R>
double bytes_of(ms::Tensor<T, R> const& tensor) {
  return static_cast<double>(tensor.bytes());
}

template <ms::Runtime R>
void lookup(benchmark::State& state, Bench<R>& bench, std::int64_t hotness) {
  std::int64_t const rows = bench.rows(Sizes::kTableRows);
  auto const table = filled(bench.device(), {rows, Sizes::kTableWidth});
  auto const ids = bench.uniform_ids({bench.rows(Sizes::kBags), hotness}, rows);
  double const row_bytes = Sizes::kTableWidth * sizeof(float);
  double const rows_moved = static_cast<double>(ids.count() + ids.shape()[0]);
  bench.measure(state, {.bytes = rows_moved * row_bytes + bytes_of(ids)}, [&] {
    benchmark::DoNotOptimize(ms::ops::embedding_lookup(table, ms::ops::Bags<R>(ids)));
  });
}

/// From the gradient of a lookup's output to that of the table's touched rows.
template <ms::Runtime R>
void row_gradients(benchmark::State& state, Bench<R>& bench, std::int64_t hotness) {
  std::int64_t const rows = bench.rows(Sizes::kTableRows);
  ms::ops::Bags<R> const bags = bench.uniform_ids({bench.rows(Sizes::kBags), hotness}, rows);
  auto const gradient = filled(bench.device(), {bags.bags(), Sizes::kTableWidth});
  bench.measure(state, {}, [&] {
    auto const unique = ms::ops::deduplicate(bags, rows);
    benchmark::DoNotOptimize(
        ms::ops::embedding_gradient(bags, unique, rows, ms::ops::Pooling::sum, gradient));
  });
}

/// Even: all segments of one length. Harmonic: segment s as long as 1 / (s + 1) of the first, which
/// alone has a thirteenth of the rows.
template <ms::Runtime R>
void segment_sum(benchmark::State& state, Bench<R>& bench, bool even) {
  std::int64_t const rows = bench.rows(Sizes::kSegmentRows);
  std::int64_t const segments = bench.rows(Sizes::kSegments);
  std::vector<double> ends;
  double end = 0;
  for (std::int64_t segment = 0; segment < segments; ++segment) {
    end += even ? 1.0 : 1.0 / static_cast<double>(segment + 1);
    ends.push_back(end);
  }
  std::vector<std::int64_t> offsets{0};
  for (double const each : ends) {
    offsets.push_back(std::llround(each / end * static_cast<double>(rows)));
  }
  auto const starts = ms::to_device(bench.device(), offsets, {segments + 1});
  auto const values = filled(bench.device(), {rows, Sizes::kSegmentWidth});
  double const written = static_cast<double>(segments * Sizes::kSegmentWidth) * sizeof(float);
  bench.measure(state, {.bytes = bytes_of(values) + bytes_of(starts) + written}, [&] {
    benchmark::DoNotOptimize(ms::ops::segment_sum(values, starts));
  });
}

template <ms::Runtime R>
void dense(benchmark::State& state, Bench<R>& bench, bool backward) {
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

/// The gradients of weights and bias alone.
template <ms::Runtime R>
void dense_weights(benchmark::State& state,
                   Bench<R>& bench,
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

/// Adam moves seven floats an element: gradient, and weight and two states there and back.
constexpr double kAdamBytesPerElement = 7 * sizeof(float);
constexpr ms::ops::OptimizerRule kAdam{ms::ops::OptimizerKind::adam, 1e-3F};

template <ms::Runtime R>
void adam_dense(benchmark::State& state, Bench<R>& bench) {
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
void adam_rows(benchmark::State& state, Bench<R>& bench) {
  auto const& device = bench.device();
  ms::ops::StepCounter<R> step(device);
  step.advance(kAdam);
  std::int64_t const rows = bench.rows(Sizes::kTableRows);
  auto const table = filled(device, {rows, Sizes::kTableWidth});
  auto const optimizer_state = ms::ops::make_state(device, kAdam.kind, table.shape());
  ms::ops::Bags<R> const bags = bench.uniform_ids({bench.rows(Sizes::kBags)}, rows);
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
    add(ms::text("kernels/", R::name, '/', what), Sizes::kRuns, [=](benchmark::State& state) {
      Bench<R> bench(divisor);
      function(state, bench);
    });
  };
  for (std::int64_t const hotness : Sizes::kHotness) {
    add_one(ms::text("lookup/hotness:", hotness),
            [=](auto& state, auto& bench) { lookup<R>(state, bench, hotness); });
  }
  for (std::int64_t const hotness : Sizes::kHotness) {
    add_one(ms::text("row_gradients/hotness:", hotness),
            [=](auto& state, auto& bench) { row_gradients<R>(state, bench, hotness); });
  }
  add_one("segment_sum/even", [](auto& state, auto& bench) { segment_sum<R>(state, bench, true); });
  add_one("segment_sum/harmonic",
          [](auto& state, auto& bench) { segment_sum<R>(state, bench, false); });
  add_one("dense/forward", [](auto& state, auto& bench) { dense<R>(state, bench, false); });
  add_one("dense/backward", [](auto& state, auto& bench) { dense<R>(state, bench, true); });
  for (auto const& sizes : Sizes::kLongDense) {
    add_one(ms::text("dense/weights/", sizes[0], 'x', sizes[1], 'x', sizes[2]),
            [=](auto& state, auto& bench) { dense_weights<R>(state, bench, sizes); });
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
