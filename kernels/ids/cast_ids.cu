// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "ids/cast_ids_types.hpp"

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

template <class From, class To>
__global__ void cast_ids_kernel(From const* from, To* to, std::int64_t count) {
  auto const i = grid_thread();
  if (i < count) {
    to[i] = cast_id<To>(from[i]);
  }
}

}  // namespace

void cast_ids(CudaStream stream, CastIdsArgs const& args) {
  with_cast_types(args, [&](auto from, auto to) {
    if (args.count > 0) {
      cast_ids_kernel<<<grid_for(args.count, kThreads), kThreads, 0, stream>>>(
          static_cast<decltype(from) const*>(args.from),
          static_cast<decltype(to)*>(args.to),
          args.count);
      check_launch("cast_ids");
    }
  });
}

}  // namespace msstream::ops::kernels
