// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"
#include "bare.hpp"

#include <benchmark/benchmark.h>

#include <string>
#include <utility>

namespace benchmarks {

/// Add the benchmarks of a suite, for the host runtime and for CUDA. Every suite defines both
/// functions. If a suite has no benchmarks for a runtime, that function's body is empty.
void add_host_benchmarks();
void add_cuda_benchmarks();

/// Registers one benchmark, whose function sets its times; it runs `iterations` times per
/// repetition. The name is a path: suite, runtime, case, axes.
template <class Function>
void add(std::string const& name, int iterations, Function&& function) {
  benchmark::RegisterBenchmark(name.c_str(), std::forward<Function>(function))
      ->UseManualTime()
      ->Iterations(iterations);
}

}  // namespace benchmarks
