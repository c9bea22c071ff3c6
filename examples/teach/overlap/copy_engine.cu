// SPDX-License-Identifier: Apache-2.0
// A large copy ahead: each direction has one copy engine, which takes copies in order and knows no
// priorities. The small upload that the next kernel needs waits for a large one of another stream.
// Fixed: the large copy in pieces, with an event between, so that small ones get in.
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const bulk = planted::new_stream();
  auto const urgent = planted::new_stream(-1);
  std::size_t const bytes = 96 << 20;
  int const pieces = options.fixed ? 96 : 1;
  auto* const source = static_cast<char*>(planted::host_memory(bytes, true));
  auto* const target = static_cast<char*>(planted::device_memory(bytes));
  void* const small_source = planted::host_memory(4096, true);
  void* const small_target = planted::device_memory(4096);
  planted::measure(options, "copy_engine", 10, [&] {
    // A refresh of large tables, which must be complete at the end of the step.
    std::size_t const piece = bytes / static_cast<std::size_t>(pieces);
    for (int i = 0; i < pieces; ++i) {
      auto const at = piece * static_cast<std::size_t>(i);
      PLANTED_CHECK(cudaMemcpyAsync(target + at, source + at, piece, cudaMemcpyHostToDevice, bulk));
      if (options.fixed) {
        planted::work(bulk, 1, 1, 32);  // the engine turns to the other stream's copy meanwhile
      }
      if (i % (pieces / 4 + 1) == 0) {  // once, or four times
        for (int j = 0; j < (options.fixed ? 1 : 4); ++j) {
          PLANTED_CHECK(
              cudaMemcpyAsync(small_target, small_source, 4096, cudaMemcpyHostToDevice, urgent));
          planted::work(urgent, 400);
        }
      }
    }
    static cudaEvent_t const done = planted::new_event();
    PLANTED_CHECK(cudaEventRecord(done, urgent));
    PLANTED_CHECK(cudaStreamWaitEvent(bulk, done));
  });
}
