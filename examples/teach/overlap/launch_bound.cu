// SPDX-License-Identifier: Apache-2.0
// Launch-bound: a step of 200 kernels of 2 us, each of which costs the host longer to launch. The
// GPU idles between them, and a second stream would not help: the host is the bottleneck. Fixed:
// the step is captured into a CUDA graph once, and launched with one call.
#include "planted.cuh"

namespace {

void issue(cudaStream_t stream) {
  for (int i = 0; i < 200; ++i) {
    planted::work(stream, 1, 4, 64);
    planted::busy(4);  // what an interpreter does between two operations
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const stream = planted::new_stream();
  cudaGraphExec_t step = nullptr;
  if (options.fixed) {
    cudaGraph_t graph = nullptr;
    PLANTED_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    issue(stream);
    PLANTED_CHECK(cudaStreamEndCapture(stream, &graph));
    PLANTED_CHECK(cudaGraphInstantiate(&step, graph, 0));
  }
  planted::measure(options, "launch_bound", 20, [&] {
    if (options.fixed) {
      PLANTED_CHECK(cudaGraphLaunch(step, stream));
    } else {
      issue(stream);
    }
  });
}
