// SPDX-License-Identifier: Apache-2.0
// Pageable memory: cudaMemcpyAsync() from memory that malloc() returned is not asynchronous. The
// driver stages it through a buffer of its own while the call blocks, so that the next kernel is
// issued late and the copy is slow as well. Fixed: cudaMallocHost().
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const compute = planted::new_stream();
  auto const copies = planted::new_stream();
  std::size_t const bytes = 16 << 20;
  void* const source = planted::host_memory(bytes, options.fixed);
  void* const target = planted::device_memory(bytes);
  planted::measure(options, "pageable_copy", 30, [&] {
    PLANTED_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, copies));
    planted::work(compute, 400);  // does not need the copy: it is for the next batch
  });
}
