// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"

#include <msstream/msstream.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace benchmarks {

namespace ms = msstream;

/// A device whose operations are timed by its own clock. On a small machine the numbers of rows are
/// divided by `divisor`.
template <ms::Runtime R>
class DeviceBench {
 public:
  explicit DeviceBench(std::int64_t divisor) : divisor_(divisor), copy_gbps_(measure_copy()) {}
  DeviceBench(DeviceBench const&) = delete;
  DeviceBench& operator=(DeviceBench const&) = delete;
  ~DeviceBench() {
    runtime().destroy_event(begin_);
    runtime().destroy_event(end_);
  }

  [[nodiscard]] ms::Device<R> const& device() const noexcept { return device_; }
  /// Returns the rate of a copy of kCopyBytes in GB/s, reads and writes counted.
  [[nodiscard]] double copy_gbps() const noexcept { return copy_gbps_; }
  [[nodiscard]] std::int64_t rows(std::int64_t full) const {
    return std::max<std::int64_t>(full / divisor_, 1);
  }

  struct Work {
    double bytes = 0;
    double flops = 0;
  };
  /// Times several runs back to back and reports the mean. Bytes are reported in GB/s and as a
  /// share of the bandwidth of a copy, flops in TFLOP/s.
  void measure(benchmark::State& state, Work const& work, std::function<void()> const& operation) {
    warm_ns(operation);
    report(state, work, [&] { return warm_ns(operation); });
  }
  /// Returns the mean time, in nanoseconds, of several runs back to back.
  double warm_ns(std::function<void()> const& operation) {
    return time(operation, axes::Kernels::kOperations);
  }
  /// Reports the medians of cold_ns(), and returns their mean in nanoseconds.
  double measure_cold(benchmark::State& state,
                      Work const& work,
                      std::function<void()> const& operation) {
    return report(state, work, [&] { return cold_ns(operation); });
  }
  /// Returns the median time, in nanoseconds, of runs that each find none of their data in the
  /// device's cache: before each run, writes a large buffer. Then writes a few bytes several times,
  /// during which the memory comes to rest and the host gets ahead of the device.
  double cold_ns(std::function<void()> const& operation) {
    constexpr int kSettlingFills = 24;
    ms::Tensor<std::uint8_t, R> const flush(device_, {rows(axes::Kernels::kFlushBytes)});
    auto const little = flush.rows(0, 1);
    auto const cold = [&] {
      ms::fill_bytes(flush, flushes_++ % 128);
      for (int i = 0; i < kSettlingFills; ++i) {
        ms::fill_bytes(little, i);
      }
      return time(operation, 1);
    };
    cold();
    cold();
    std::vector<double> times;
    for (int run = 0; run < axes::Kernels::kColdRuns; ++run) {
      times.push_back(cold());
    }
    auto const median = times.begin() + axes::Kernels::kColdRuns / 2;
    std::nth_element(times.begin(), median, times.end());
    return *median;
  }

 private:
  [[nodiscard]] R& runtime() const { return device_.runtime(); }

  template <class Sample>
  double report(benchmark::State& state, Work const& work, Sample const& sample) {
    double total_ns = 0;
    for ([[maybe_unused]] auto _ : state) {
      double const ns = sample();
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
    return ns;
  }

  /// Runs the operation several times, and returns nanoseconds per run by the device's clock.
  double time(std::function<void()> const& operation, int operations) {
    auto const stream = device_.current_group().compute().native();
    runtime().record(begin_, stream);
    for (int i = 0; i < operations; ++i) {
      operation();
    }
    runtime().record(end_, stream);
    runtime().synchronize(end_);
    return runtime().elapsed_ns(begin_, end_) / operations;
  }

  double measure_copy() {
    ms::Shape const shape{rows(axes::Kernels::kCopyBytes)};
    auto const from = ms::zeros<std::uint8_t>(device_, shape);
    ms::Tensor<std::uint8_t, R> const to(device_, shape);
    auto const copy = [&] { ms::copy(to, from); };
    time(copy, axes::Kernels::kOperations);
    return 2 * static_cast<double>(from.bytes()) / time(copy, axes::Kernels::kOperations);
  }

  ms::Device<R> device_;
  typename R::native_event begin_ = runtime().create_event(ms::EventTiming::timed);
  typename R::native_event end_ = runtime().create_event(ms::EventTiming::timed);
  std::int64_t divisor_;
  double copy_gbps_;
  int flushes_ = 0;
};

/// Returns a tensor of small numbers. Zeros would save power, and the device would reach clock
/// rates that real data never allows.
template <ms::Runtime R>
ms::Tensor<float, R> filled(ms::Device<R> const& device, ms::Shape const& shape) {
  ms::Tensor<float, R> tensor(device, shape);
  ms::fill_bytes(tensor, 0x3C);
  return tensor;
}

/// Returns the total bytes of all tensors.
template <ms::Runtime R, class... T>
double bytes_of(ms::Tensor<T, R> const&... tensors) {
  return (static_cast<double>(tensors.bytes()) + ...);
}

}  // namespace benchmarks
