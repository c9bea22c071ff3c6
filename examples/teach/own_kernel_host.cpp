// SPDX-License-Identifier: Apache-2.0
#include "own_kernel.hpp"

namespace own {

// A host stream is a worker thread; run() queues work for it and returns at once. So the work takes
// its arguments by value.
void scale(msstream::HostStream stream, ScaleArgs const& args) {
  stream.run([args] {
    for (std::int64_t i = 0; i < args.count; ++i) {
      args.output[i] = args.factor * args.input[i];
    }
  });
}

}  // namespace own
