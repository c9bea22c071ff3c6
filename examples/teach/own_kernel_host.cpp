// SPDX-License-Identifier: Apache-2.0
#include "own_kernel.hpp"

namespace own {

// Queues the work on a host stream, which is a worker thread, and returns at once. The work
// therefore captures its arguments by value.
void scale(msstream::HostStream stream, ScaleArgs const& args) {
  stream.run([args] {
    for (std::int64_t i = 0; i < args.count; ++i) {
      args.output[i] = args.factor * args.input[i];
    }
  });
}

}  // namespace own
