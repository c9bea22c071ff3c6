// SPDX-License-Identifier: Apache-2.0
#include "common/workspace_layout.hpp"
#include "elementwise/reduce.hpp"
#include "elementwise/reduce_axis.cuh"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

namespace {

/// Maps the index of an element of [outer, axis, inner] to the index of its output in [outer,
/// inner].
template <class Index>
struct OutputOf {
  Index inner;
  Index axis_inner;
  __device__ Index operator()(Index place) const {
    Index const outer = place / axis_inner;
    Index const in_outer = place - outer * axis_inner;
    return outer * inner + in_outer % inner;
  }
};

/// Repeats values along the middle axis, and writes `Lanes` neighbouring elements per thread. The
/// elements have one output in common if inner is 1, and neighbouring outputs otherwise.
template <int Lanes, class Index>
__global__ void __launch_bounds__(kBlockThreads) repeat_axis_kernel(OutputOf<Index> output_of,
                                                                    float const* values,
                                                                    float factor,
                                                                    float* output,
                                                                    std::int64_t count) {
  std::int64_t const first = grid_thread() * Lanes;
  if (first >= count) {
    return;
  }
  Index const from = output_of(static_cast<Index>(first));
  Pack<float, Lanes> pack;
#pragma unroll
  for (int lane = 0; lane < Lanes; ++lane) {
    pack.lanes[lane] = factor * values[output_of.inner == 1 ? from : from + lane];
  }
  *reinterpret_cast<Pack<float, Lanes>*>(output + first) = pack;
}

template <class Index>
__global__ void __launch_bounds__(kBlockThreads)
    extremum_gradient_kernel(OutputOf<Index> output_of,
                             __grid_constant__ ExtremumGradientArgs const args,
                             float const* sharers,
                             std::int64_t count) {
  std::int64_t const place = grid_thread();
  if (place >= count) {
    return;
  }
  Index const result = output_of(static_cast<Index>(place));
  bool const shares = is_extremum(args.input[place], args.output[result]);
  args.input_gradient[place] = shares ? args.output_gradient[result] / sharers[result] : 0.0F;
}

/// Calls call(OutputOf), which uses 32-bit divisions if 32 bits suffice for the view's indices.
template <class Call>
void with_output_of(AxisView const& view, Call const& call) {
  if (view.count() <= std::numeric_limits<std::int32_t>::max()) {
    call(OutputOf<std::uint32_t>{static_cast<std::uint32_t>(view.inner),
                                 static_cast<std::uint32_t>(view.axis * view.inner)});
  } else {
    call(OutputOf<std::int64_t>{view.inner, view.axis * view.inner});
  }
}

struct SharerMemory {
  float* sharers;  ///< [outputs]: number of elements that equal each extremum
  void* reduction_workspace;
  std::size_t bytes;

  SharerMemory(void* memory, CudaStream stream, AxisView const& view) {
    WorkspaceLayout workspace(memory);
    sharers = workspace.take<float>(view.outputs());
    reduction_workspace = workspace.take_bytes(reduce_axis_workspace_bytes(stream, view));
    bytes = workspace.bytes();
  }
};

}  // namespace

void repeat_axis(CudaStream stream, RepeatAxisArgs const& args) {
  auto const& view = args.view;
  auto const count = view.count();
  if (count == 0) {
    return;
  }
  bool const quads =
      quads_fit(args.output) && (view.inner == 1 ? view.axis % 4 == 0 : view.inner % 4 == 0);
  with_output_of(view, [&](auto output_of) {
    using Index = decltype(output_of.inner);
    if (quads) {
      repeat_axis_kernel<4, Index>
          <<<grid_for(count, 4 * kBlockThreads), kBlockThreads, 0, stream.handle>>>(
              output_of, args.values, args.factor, args.output, count);
    } else {
      repeat_axis_kernel<1, Index>
          <<<grid_for(count, kBlockThreads), kBlockThreads, 0, stream.handle>>>(
              output_of, args.values, args.factor, args.output, count);
    }
  });
  check_launch("repeat_axis");
}

std::size_t extremum_gradient_workspace_bytes(CudaStream stream, AxisView const& view) {
  return SharerMemory(nullptr, stream, view).bytes;
}

void extremum_gradient(CudaStream stream, ExtremumGradientArgs const& args) {
  auto const& view = args.view;
  if (view.count() == 0) {
    return;
  }
  SharerMemory const memory(args.workspace, stream, view);
  reduce<Total, IsExtremum>(
      stream, view, args.input, args.output, 1.0F, memory.reduction_workspace, memory.sharers);
  with_output_of(view, [&](auto output_of) {
    extremum_gradient_kernel<<<grid_for(view.count(), kBlockThreads),
                               kBlockThreads,
                               0,
                               stream.handle>>>(output_of, args, memory.sharers, view.count());
  });
  check_launch("extremum_gradient");
}

}  // namespace msstream::ops::kernels
