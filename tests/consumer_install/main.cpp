// SPDX-License-Identifier: Apache-2.0
// A first program that uses msstream, built by both consumer tests: work on a host stream.
#include <msstream/base/shape.hpp>
#include <msstream/runtime/host_queue.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>

#ifdef EIGEN_WORLD_VERSION
#error "a public header includes Eigen"
#endif

int main() {
  std::int64_t count = 0;
  msstream::HostQueue queue;
  queue.enqueue(msstream::Closure([&] { count = msstream::Shape{2, 3}.count(); }));
  queue.progress()->wait(1);
  std::printf("%lld elements, CUDA %d\n", static_cast<long long>(count), MSSTREAM_CUDA);
  return count == 6 ? 0 : 1;
}
