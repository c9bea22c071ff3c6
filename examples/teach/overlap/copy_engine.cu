// SPDX-License-Identifier: Apache-2.0
// A large copy ahead: each direction has one copy engine, which takes copies in order and knows no
// priorities. The small uploads that the next kernels need wait for a large one of another stream.
// Fixed: the small ones are issued first, and the large one after them.
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const bulk = planted::new_stream();
  auto const urgent = planted::new_stream(-1);
  std::size_t const bytes = 96 << 20;
  std::size_t const small_bytes = 4 << 10;
  void* const source = planted::host_memory(bytes, true);
  void* const target = planted::device_memory(bytes);
  void* const small_source = planted::host_memory(small_bytes, true);
  void* const small_target = planted::device_memory(small_bytes);
  auto const uploaded = planted::new_event();
  auto const done = planted::new_event();
  planted::measure(options, "copy_engine", 10, [&] {
    // A refresh of large tables, which must be complete at the end of the step.
    auto const refresh = [&] {
      PLANTED_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, bulk));
    };
    if (!options.fixed) {
      refresh();
    }
    PLANTED_CHECK(
        cudaMemcpyAsync(small_target, small_source, small_bytes, cudaMemcpyHostToDevice, urgent));
    if (options.fixed) {
      PLANTED_CHECK(cudaEventRecord(uploaded, urgent));
      PLANTED_CHECK(cudaStreamWaitEvent(bulk, uploaded));
      refresh();
    }
    for (int i = 0; i < 4; ++i) {
      planted::work(urgent, 400);
    }
    PLANTED_CHECK(cudaEventRecord(done, urgent));
    PLANTED_CHECK(cudaStreamWaitEvent(bulk, done));
    PLANTED_CHECK(cudaEventRecord(done, bulk));
    PLANTED_CHECK(cudaStreamWaitEvent(urgent, done));
  });
}
