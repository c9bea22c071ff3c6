// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "elementwise_pack.cuh"
#include "reduce_lanes.cuh"
#include "reduce_math.hpp"

#include <msstream/ops/kernels/reduce.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {

namespace {

constexpr std::int64_t kEnoughBlocks = 1024;  // some seven on each multiprocessor of an H200

/// One launch. An axis in several chunks yields a partial result a chunk, for a second launch.
struct Pass {
  float const* input;     ///< [outer, axis, inner]
  float const* extremum;  ///< [outer, inner], or null: what the elements are compared with
  float* output;          ///< [outer, chunks, inner]
  AxisView view;
  std::int64_t chunks;
  std::int64_t chunk_length;  ///< of the axis; the last one may be shorter
  float factor;

  __device__ std::int64_t end_of_chunk(std::int64_t chunk) const {
    return min((chunk + 1) * chunk_length, view.axis);
  }
};

/// What an element brings into its reduction: itself.
struct Itself {
  __device__ Itself(Pass const&, std::int64_t) {}
  __device__ float operator()(float element) const { return element; }
};
/// 1 if it is the extremum, for counting those that are.
struct IsExtremum {
  float extremum;
  __device__ IsExtremum(Pass const& pass, std::int64_t place) : extremum(pass.extremum[place]) {}
  __device__ float operator()(float element) const {
    return is_extremum(element, extremum) ? 1.0F : 0.0F;
  }
};

/// Contiguous rows, short: a power of two of lanes a row, up to a warp.
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads)
    rows_by_lanes_kernel(__grid_constant__ Pass const pass, int log2_lanes) {
  int const lanes = 1 << log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  std::int64_t const row = grid_thread() >> log2_lanes;
  bool const exists = row < pass.view.outer;
  float total = Reducer::nothing();
  if (exists) {
    Element const element(pass, row);
    float const* const from = pass.input + row * pass.view.axis;
#pragma unroll 4
    for (std::int64_t a = lane; a < pass.view.axis; a += lanes) {
      total = Reducer::combine(total, element(from[a]));
    }
  }
  total = reduce_lanes<Reducer>(total, lanes);
  if (exists && lane == 0) {
    pass.output[row] = pass.factor * total;
  }
}

/// Contiguous rows, long: a block a chunk of a row.
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads)
    rows_by_blocks_kernel(__grid_constant__ Pass const pass) {
  std::int64_t const row = blockIdx.x / pass.chunks;
  std::int64_t const chunk = blockIdx.x - row * pass.chunks;
  std::int64_t const end = pass.end_of_chunk(chunk);
  Element const element(pass, row);
  float const* const from = pass.input + row * pass.view.axis;
  float total = Reducer::nothing();
#pragma unroll 8
  for (std::int64_t a = chunk * pass.chunk_length + threadIdx.x; a < end; a += kBlockThreads) {
    total = Reducer::combine(total, element(from[a]));
  }
  total = reduce_block<Reducer>(total);
  if (threadIdx.x == 0) {
    pass.output[blockIdx.x] = pass.factor * total;
  }
}

/// Columns of a short axis, or very many columns: a thread a column.
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads)
    columns_by_threads_kernel(__grid_constant__ Pass const pass) {
  std::int64_t const place = grid_thread();
  if (place >= pass.view.outer * pass.view.inner) {
    return;
  }
  std::int64_t const outer = place / pass.view.inner;
  std::int64_t const column = place - outer * pass.view.inner;
  Element const element(pass, place);
  float const* const from = pass.input + outer * pass.view.axis * pass.view.inner + column;
  float total = Reducer::nothing();
#pragma unroll 8
  for (std::int64_t a = 0; a < pass.view.axis; ++a) {
    total = Reducer::combine(total, element(from[a * pass.view.inner]));
  }
  pass.output[place] = pass.factor * total;
}

/// Few columns of a long axis: a block a chunk of the axis and a tile of columns.
///
///   thread (r, c) of [threads / columns, columns] takes rows r, r + threads / columns, … of the
///   chunk; then r = 0 combines those of its column, front to back
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads)
    columns_by_tiles_kernel(__grid_constant__ Pass const pass, int log2_columns) {
  __shared__ float tile[kBlockThreads];
  int const columns = 1 << log2_columns;
  int const rows = kBlockThreads >> log2_columns;
  int const row = static_cast<int>(threadIdx.x) >> log2_columns;
  std::int64_t const tiles = ceil_div<std::int64_t>(pass.view.inner, columns);
  std::int64_t const slab = blockIdx.x / tiles;  // a chunk of one index of `outer`
  std::int64_t const outer = slab / pass.chunks;
  std::int64_t const chunk = slab - outer * pass.chunks;
  std::int64_t const column =
      (blockIdx.x - slab * tiles) * columns + (static_cast<int>(threadIdx.x) & (columns - 1));
  float total = Reducer::nothing();
  if (column < pass.view.inner) {
    Element const element(pass, outer * pass.view.inner + column);
    std::int64_t const end = pass.end_of_chunk(chunk);
    float const* const from = pass.input + outer * pass.view.axis * pass.view.inner + column;
#pragma unroll 8
    for (std::int64_t a = chunk * pass.chunk_length + row; a < end; a += rows) {
      total = Reducer::combine(total, element(from[a * pass.view.inner]));
    }
  }
  tile[threadIdx.x] = total;
  __syncthreads();
  if (row != 0 || column >= pass.view.inner) {
    return;
  }
  for (int other = 1; other < rows; ++other) {
    total = Reducer::combine(total, tile[(other << log2_columns) + threadIdx.x]);
  }
  pass.output[slab * pass.view.inner + column] = pass.factor * total;
}

enum class Way : std::uint8_t {
  rows_by_lanes,
  rows_by_blocks,
  columns_by_threads,
  columns_by_tiles
};

/// How a view is reduced; depends on its sizes alone, and so does the order of the additions.
struct Plan {
  Way way;
  int log2 = 0;  ///< of the lanes a row, or of the columns a tile
  std::int64_t chunks = 1;
  std::int64_t chunk_length = 0;
};

int log2_of_lanes(std::int64_t wanted) {
  auto const most = std::min<std::int64_t>(std::max<std::int64_t>(wanted, 1), 32);
  return std::bit_width(static_cast<unsigned>(most - 1));
}

/// Chunks of at least `least` for about kEnoughBlocks blocks, where one chunk would have `blocks`.
Plan chunked(Plan plan, std::int64_t axis, std::int64_t blocks, std::int64_t least) {
  auto const wanted = std::min(ceil_div(kEnoughBlocks, blocks), ceil_div(axis, least));
  plan.chunk_length = ceil_div(axis, std::max<std::int64_t>(wanted, 1));
  plan.chunks = ceil_div(axis, plan.chunk_length);
  return plan;
}

/// For at least one output.
Plan plan_of(AxisView const& view, bool may_chunk = true) {
  constexpr std::int64_t kLongestOfAWarp = 1024;
  constexpr std::int64_t kLeastOfABlock = 4096;
  constexpr std::int64_t kLongestOfAThread = 64;
  constexpr std::int64_t kManyThreads = std::int64_t{1} << 17U;
  constexpr std::int64_t kLeastOfAThread = 8;
  if (view.inner == 1) {
    if (view.axis <= kLongestOfAWarp) {
      return {
          Way::rows_by_lanes, log2_of_lanes(ceil_div<std::int64_t>(view.axis, 4)), 1, view.axis};
    }
    Plan const whole{Way::rows_by_blocks, 0, 1, view.axis};
    return may_chunk ? chunked(whole, view.axis, view.outer, kLeastOfABlock) : whole;
  }
  if (view.axis <= kLongestOfAThread || view.outputs() >= kManyThreads) {
    return {Way::columns_by_threads, 0, 1, view.axis};
  }
  int const log2_columns = log2_of_lanes(view.inner);
  std::int64_t const tiles = ceil_div(view.inner, std::int64_t{1} << log2_columns);
  std::int64_t const least = (kBlockThreads >> log2_columns) * kLeastOfAThread;
  Plan const whole{Way::columns_by_tiles, log2_columns, 1, view.axis};
  return may_chunk ? chunked(whole, view.axis, view.outer * tiles, least) : whole;
}

template <class Reducer, class Element>
void launch(CudaStream stream, Plan const& plan, Pass const& pass) {
  auto const& view = pass.view;
  auto const handle = stream.handle;
  switch (plan.way) {
    case Way::rows_by_lanes:
      rows_by_lanes_kernel<Reducer, Element>
          <<<grid_for(view.outer, kBlockThreads >> plan.log2), kBlockThreads, 0, handle>>>(
              pass, plan.log2);
      break;
    case Way::rows_by_blocks:
      rows_by_blocks_kernel<Reducer, Element>
          <<<grid_for(view.outer * plan.chunks, 1), kBlockThreads, 0, handle>>>(pass);
      break;
    case Way::columns_by_threads:
      columns_by_threads_kernel<Reducer, Element>
          <<<grid_for(view.outputs(), kBlockThreads), kBlockThreads, 0, handle>>>(pass);
      break;
    case Way::columns_by_tiles: {
      auto const tiles = ceil_div(view.inner, std::int64_t{1} << plan.log2);
      columns_by_tiles_kernel<Reducer, Element>
          <<<grid_for(view.outer * plan.chunks * tiles, 1), kBlockThreads, 0, handle>>>(pass,
                                                                                        plan.log2);
      break;
    }
  }
  check_launch("reduce_axis");
}

template <class Reducer, class Element>
void reduce(CudaStream stream,
            AxisView const& view,
            float const* input,
            float const* extremum,
            float factor,
            void* workspace,
            float* output) {
  if (view.outputs() == 0) {
    return;
  }
  Plan const plan = plan_of(view);
  if (plan.chunks == 1) {
    launch<Reducer, Element>(
        stream, plan, {input, extremum, output, view, 1, plan.chunk_length, factor});
    return;
  }
  auto* const partials = static_cast<float*>(workspace);
  launch<Reducer, Element>(
      stream, plan, {input, extremum, partials, view, plan.chunks, plan.chunk_length, 1.0F});
  AxisView const rest{view.outer, plan.chunks, view.inner};
  launch<Reducer, Itself>(
      stream, plan_of(rest, false), {partials, nullptr, output, rest, 1, rest.axis, factor});
}

/// Which output an element of [outer, axis, inner] belongs to.
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

/// A thread writes `Lanes` neighbours: of the same output if inner is 1, of neighbouring ones else.
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

/// Calls call(OutputOf) with 32-bit divisions where they suffice.
template <class Call>
void with_output_of(AxisView const& view, Call const& call) {
  if (view.count() <= std::numeric_limits<std::int32_t>::max()) {
    call(OutputOf<std::uint32_t>{static_cast<std::uint32_t>(view.inner),
                                 static_cast<std::uint32_t>(view.axis * view.inner)});
  } else {
    call(OutputOf<std::int64_t>{view.inner, view.axis * view.inner});
  }
}

}  // namespace

std::size_t reduce_axis_workspace_bytes(CudaStream, AxisView const& view) {
  if (view.outputs() == 0) {
    return 0;
  }
  auto const chunks = plan_of(view).chunks;
  return chunks == 1 ? 0 : static_cast<std::size_t>(view.outputs() * chunks) * sizeof(float);
}

void reduce_axis(CudaStream stream, ReduceAxisArgs const& args) {
  with_reduction(args.reduction, [&](auto reducer) {
    reduce<decltype(reducer), Itself>(
        stream, args.view, args.input, nullptr, args.factor, args.workspace, args.output);
  });
}

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
  return static_cast<std::size_t>(view.outputs()) * sizeof(float) +
         reduce_axis_workspace_bytes(stream, view);
}

void extremum_gradient(CudaStream stream, ExtremumGradientArgs const& args) {
  auto const& view = args.view;
  if (view.count() == 0) {
    return;
  }
  auto* const sharers = static_cast<float*>(args.workspace);
  reduce<Total, IsExtremum>(
      stream, view, args.input, args.output, 1.0F, sharers + view.outputs(), sharers);
  with_output_of(view, [&](auto output_of) {
    extremum_gradient_kernel<<<grid_for(view.count(), kBlockThreads),
                               kBlockThreads,
                               0,
                               stream.handle>>>(output_of, args, sharers, view.count());
  });
  check_launch("extremum_gradient");
}

}  // namespace msstream::ops::kernels
