// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"
#include "bare.hpp"

#include <msstream/base/text.hpp>

#include <benchmark/benchmark.h>

#include <string>
#include <utility>

namespace benchmarks {

/// Every suite defines these two; a suite that says nothing about a runtime leaves its body empty.
void add_host_benchmarks();
void add_cuda_benchmarks();

/// Registers one benchmark whose times the function sets itself; it runs `iterations` times a
/// repetition. The name is a path: suite, runtime, case, axes.
template <class Function>
void add(std::string const& name, int iterations, Function&& function) {
  benchmark::RegisterBenchmark(name.c_str(), std::forward<Function>(function))
      ->UseManualTime()
      ->Iterations(iterations);
}

}  // namespace benchmarks
