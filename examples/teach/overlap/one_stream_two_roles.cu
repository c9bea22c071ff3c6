// SPDX-License-Identifier: Apache-2.0
// One stream for two roles: the uploads of the next batch are in the stream of the kernels, so that
// a copy engine idles while the multiprocessors work, and they while it copies. A pool of streams
// that hands out one stream twice has the same effect. Fixed: a stream for the uploads.
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const compute = planted::new_stream();
  auto const uploads = options.fixed ? planted::new_stream() : compute;
  std::size_t const bytes = 16 << 20;
  void* const source = planted::host_memory(bytes, true);
  void* const target = planted::device_memory(bytes);
  planted::measure(options, "one_stream_two_roles", 30, [&] {
    planted::work(compute, 350);
    PLANTED_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, uploads));
  });
}
