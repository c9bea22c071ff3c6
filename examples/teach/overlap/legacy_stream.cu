// SPDX-License-Identifier: Apache-2.0
// The legacy default stream: work without a stream argument waits for all blocking streams, and
// they for it. Two streams with one such kernel between them run in order. Fixed: streams made with
// cudaStreamNonBlocking (or the compiler's --default-stream per-thread).
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  cudaStream_t side = nullptr;
  PLANTED_CHECK(
      cudaStreamCreateWithFlags(&side, options.fixed ? cudaStreamNonBlocking : cudaStreamDefault));
  planted::measure(options, "legacy_stream", 40, [&] {
    planted::work(side, 200);
    planted::work(nullptr, 200);
  });
}
