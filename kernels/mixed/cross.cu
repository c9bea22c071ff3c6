// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "mixed/cross.hpp"

namespace msstream::ops::kernels {
namespace {

struct Cross {
  __device__ float operator()(float first, float projected, float input) const {
    return __fadd_rn(__fmul_rn(first, projected), input);
  }
};

template <int Quads, class T>
__global__ void __launch_bounds__(kBlockThreads)
    cross_gradient_kernel(CrossGradientArgs const args, bool aligned) {
  auto const place = grid_place<Quads>(args.count, aligned);
  if (!place.exists()) {
    return;
  }
  auto const gradient = place.load(static_cast<T const*>(args.output_gradient));
  auto first = place.load(static_cast<T const*>(args.first));
  auto projected = place.load(static_cast<T const*>(args.projected));
#pragma unroll
  for (int lane = 0; lane < place.kLanes; ++lane) {
    first.lanes[lane] *= gradient.lanes[lane];
    projected.lanes[lane] *= gradient.lanes[lane];
  }
  place.store(static_cast<T*>(args.projected_gradient), first);
  place.store(static_cast<T*>(args.first_gradient), projected);
}

}  // namespace

void cross(CudaStream stream, CrossArgs const& args) {
  with_real_type("cross: the input", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    map(stream,
        "cross",
        Cross{},
        static_cast<T*>(args.output),
        args.count,
        static_cast<T const*>(args.first),
        static_cast<T const*>(args.projected),
        static_cast<T const*>(args.input));
  });
}

void cross_gradient(CudaStream stream, CrossGradientArgs const& args) {
  if (args.count == 0) {
    return;
  }
  with_real_type("cross_gradient: the gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    bool const aligned = quads_fit(static_cast<char const*>(args.first),
                                   static_cast<char const*>(args.projected),
                                   static_cast<char const*>(args.output_gradient),
                                   static_cast<char const*>(args.first_gradient),
                                   static_cast<char const*>(args.projected_gradient));
    with_quads_a_thread(args.count, [&](auto quads, unsigned blocks) {
      cross_gradient_kernel<quads.value, T>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(args, aligned);
    });
    check_launch("cross_gradient");
  });
}

}  // namespace msstream::ops::kernels
