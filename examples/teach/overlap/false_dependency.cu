// SPDX-License-Identifier: Apache-2.0
// A wait for more than is needed: the consumer needs the first kernel of the main stream, but the
// event is recorded at the stream's tail, after a long kernel. Fixed: the event is recorded right
// after what the consumer needs.
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const main_stream = planted::new_stream();
  auto const side = planted::new_stream();
  auto const produced = planted::new_event();
  auto const consumed = planted::new_event();
  planted::measure(options, "false_dependency", 40, [&] {
    planted::work(main_stream, 40);  // the producer
    if (options.fixed) {
      PLANTED_CHECK(cudaEventRecord(produced, main_stream));
    }
    planted::work(main_stream, 300);  // which the consumer does not need
    if (!options.fixed) {
      PLANTED_CHECK(cudaEventRecord(produced, main_stream));
    }
    PLANTED_CHECK(cudaStreamWaitEvent(side, produced));
    planted::work(side, 260);  // the consumer
    PLANTED_CHECK(cudaEventRecord(consumed, side));
    PLANTED_CHECK(cudaStreamWaitEvent(main_stream, consumed));
  });
}
