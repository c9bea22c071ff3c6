// SPDX-License-Identifier: Apache-2.0
// The host is busy elsewhere: the thread that launches also decodes the next batch, which takes
// longer than the GPU computes. Fixed: two other threads decode, while this one launches.
#include "planted.cuh"

#include <future>

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const stream = planted::new_stream();
  auto const decode = [] { planted::busy(1000); };
  std::future<void> decoded[2];
  for (auto& batch : decoded) {
    batch = std::async(std::launch::async, decode);
  }
  int step = 0;
  planted::measure(options, "host_busy", 40, [&] {
    if (options.fixed) {
      auto& batch = decoded[step++ % 2];
      batch.get();
      batch = std::async(std::launch::async, decode);
    } else {
      decode();
    }
    for (int i = 0; i < 4; ++i) {
      planted::work(stream, 150);
    }
  });
}
