// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#include <iostream>

/// Runs one suite: on the host runtime, and on CUDA where the build and the machine have it.
int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) {
    return 1;
  }
  benchmarks::add_host_benchmarks();
  benchmark::AddCustomContext("cpu", benchmarks::Bare<msstream::Host>::device_name());
#if MSSTREAM_CUDA
  if (msstream::Cuda::device_count() > 0) {
    benchmarks::add_cuda_benchmarks();
    using Cuda = benchmarks::Bare<msstream::Cuda>;
    benchmark::AddCustomContext("gpu", Cuda::device_name());
    benchmark::AddCustomContext("cuda", Cuda::driver());
  } else {
    std::cerr << "no GPU: the CUDA benchmarks are left out\n";
  }
#endif
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
