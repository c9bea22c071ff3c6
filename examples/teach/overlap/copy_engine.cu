// SPDX-License-Identifier: Apache-2.0
// A large copy ahead: each direction has one copy engine, which takes copies in order and knows no
// priorities. The small uploads that the next kernels need wait for a large one of another stream.
// Fixed: the large copy in pieces, each of which waits for a small one and runs beside its kernel.
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const bulk = planted::new_stream();
  auto const urgent = planted::new_stream(-1);
  std::size_t const bytes = 96 << 20;
  constexpr int kRounds = 4;
  int const pieces = options.fixed ? kRounds : 1;
  auto* const source = static_cast<char*>(planted::host_memory(bytes, true));
  auto* const target = static_cast<char*>(planted::device_memory(bytes));
  void* const small_source = planted::host_memory(4096, true);
  void* const small_target = planted::device_memory(4096);
  auto const sent = planted::new_event();
  auto const done = planted::new_event();
  planted::measure(options, "copy_engine", 10, [&] {
    // A refresh of large tables, which must be complete at the end of the step.
    std::size_t const piece = bytes / static_cast<std::size_t>(pieces);
    auto const refresh = [&](int i) {
      auto const at = piece * static_cast<std::size_t>(i);
      PLANTED_CHECK(cudaMemcpyAsync(target + at, source + at, piece, cudaMemcpyHostToDevice, bulk));
    };
    if (!options.fixed) {
      refresh(0);
    }
    for (int i = 0; i < kRounds; ++i) {
      PLANTED_CHECK(
          cudaMemcpyAsync(small_target, small_source, 4096, cudaMemcpyHostToDevice, urgent));
      if (options.fixed) {
        PLANTED_CHECK(cudaEventRecord(sent, urgent));
        PLANTED_CHECK(cudaStreamWaitEvent(bulk, sent));
        refresh(i);
      }
      planted::work(urgent, 400);
    }
    PLANTED_CHECK(cudaEventRecord(done, urgent));
    PLANTED_CHECK(cudaStreamWaitEvent(bulk, done));
    PLANTED_CHECK(cudaEventRecord(done, bulk));
    PLANTED_CHECK(cudaStreamWaitEvent(urgent, done));
  });
}
