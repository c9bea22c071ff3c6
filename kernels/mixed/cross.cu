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

}  // namespace msstream::ops::kernels
