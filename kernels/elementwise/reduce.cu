// SPDX-License-Identifier: Apache-2.0
#include "elementwise/reduce.hpp"
#include "elementwise/reduce_axis.cuh"

#include <cstddef>

namespace msstream::ops::kernels {

std::size_t reduce_axis_workspace_bytes(CudaStream, AxisView const& view) {
  if (view.outputs() == 0) {
    return 0;
  }
  auto const chunks = reduce_plan(view).chunks;
  return chunks == 1 ? 0 : static_cast<std::size_t>(view.outputs() * chunks) * sizeof(float);
}

void reduce_axis(CudaStream stream, ReduceAxisArgs const& args) {
  with_reduction(args.reduction, [&](auto reducer) {
    reduce<decltype(reducer), Itself>(
        stream, args.view, args.input, nullptr, args.factor, args.workspace, args.output);
  });
}

}  // namespace msstream::ops::kernels
