// SPDX-License-Identifier: Apache-2.0
// The multiprocessors are full: each kernel has as many blocks as fit, so that a kernel of another
// stream starts when they end. Streams cannot help; work that fits side by side can. Fixed: each
// kernel has half of the blocks (its loop would take twice the elements, here it takes as long).
#include "planted.cuh"

int main(int argc, char** argv) {
  auto const options = planted::parse(argc, argv);
  auto const a = planted::new_stream();
  auto const b = planted::new_stream();
  int const fitting = planted::sms() * 2;  // 2 blocks of 1024 threads on each multiprocessor
  int const blocks = options.fixed ? fitting / 2 : fitting;
  planted::measure(options, "multiprocessors_full", 40, [&] {
    planted::work(a, 200, blocks, 1024);
    planted::work(b, 200, blocks, 1024);
  });
}
