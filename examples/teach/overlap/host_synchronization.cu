// SPDX-License-Identifier: Apache-2.0
// The host waits for the device between steps: it reads a flag back, and only then issues the work
// of the other stream. Two streams, and never two kernels at once. Fixed: the streams wait for
// events, the host for nothing.
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const a = planted::new_stream();
  auto const b = planted::new_stream();
  planted::measure(options, "host_synchronization", 40, [&] {
    planted::work(a, 200);
    if (!options.fixed) {
      PLANTED_CHECK(cudaStreamSynchronize(a));
    }
    planted::work(b, 200);
    if (!options.fixed) {
      PLANTED_CHECK(cudaStreamSynchronize(b));
    }
  });
}
