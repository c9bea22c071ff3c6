// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#include <iostream>

namespace {

/// Adds the CUDA benchmarks if the build and the machine support them, otherwise those of the host
/// runtime. Reports the processor, and the CUDA version or the lack of a GPU.
void add_benchmarks() {
  using namespace benchmarks;
  benchmark::AddCustomContext("cpu", Bare<ms::Host>::device_name());
#if MSSTREAM_CUDA
  if (ms::Cuda::device_count() > 0) {
    benchmark::AddCustomContext("cuda", Bare<ms::Cuda>::version());
    add_cuda_benchmarks();
    return;
  }
  std::cerr << "no GPU: these are benchmarks of the host runtime\n";
#endif
  add_host_benchmarks();
}

}  // namespace

/// Runs the suite that is linked into this program.
int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) {
    return 1;
  }
  add_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // destroys the devices that the benchmarks hold
  benchmark::Shutdown();
  return 0;
}
