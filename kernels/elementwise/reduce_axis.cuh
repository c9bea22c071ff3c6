// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "elementwise/reduce.hpp"
#include "elementwise/reduce_lanes.cuh"
#include "elementwise/reduce_math.hpp"
#include "elementwise/staged_elements.cuh"

#include <algorithm>
#include <bit>
#include <cstdint>

/// Reductions over the middle axis of [outer, axis, inner]: five kernels, and the choice of the
/// kernel for a view.
namespace msstream::ops::kernels {

inline constexpr std::int64_t kEnoughBlocks = 1024;  // about seven per multiprocessor of an H200

/// The arguments of one launch of a reduction. If the axis is cut into several chunks, the launch
/// gives one partial result per chunk, which a second launch combines.
struct ReducePass {
  float const* input;     ///< [outer, axis, inner]
  float const* extremum;  ///< [outer, inner]: compared with the elements; null if unused
  float* output;          ///< [outer, chunks, inner]
  AxisView view;
  std::int64_t chunks;
  std::int64_t chunk_length;  ///< elements of the axis per chunk; the last chunk may be shorter
  float factor;

  __device__ std::int64_t end_of_chunk(std::int64_t chunk) const {
    return min((chunk + 1) * chunk_length, view.axis);
  }
};

/// An element's contribution to a reduction: the element itself.
struct Itself {
  __device__ Itself(ReducePass const&, std::int64_t) {}
  __device__ float operator()(float element) const { return element; }
};
/// An element's contribution to the number of elements that equal the extremum: 1 if the element
/// equals the extremum, otherwise 0.
struct IsExtremum {
  float extremum;
  __device__ IsExtremum(ReducePass const& pass, std::int64_t place)
      : extremum(pass.extremum[place]) {}
  __device__ float operator()(float element) const {
    return is_extremum(element, extremum) ? 1.0F : 0.0F;
  }
};

/// Returns the reduction of element(load(a)) for a = first, first + step, … below `end`.
template <int Unroll, class Reducer, class Element, class Load>
__device__ float reduce_steps(Reducer,
                              std::int64_t first,
                              std::int64_t end,
                              std::int64_t step,
                              Element const& element,
                              Load const& load) {
  Running<Reducer> total;
  for (auto a = first; a < end;) {
    auto const end_of_part = min(a + kTermsOfPart * step, end);
#pragma unroll Unroll
    for (; a < end_of_part; a += step) {
      total.add(element(load(a)));
    }
    total.fold();
  }
  return total.get();
}

/// Reduces short contiguous rows whose length is a multiple of four, with a power of two of lanes
/// per row, at most a warp. Four neighbouring elements belong to one lane, which are loaded
/// together if rows are aligned.
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads)
    rows_by_lanes_kernel(__grid_constant__ ReducePass const pass, int log2_lanes, bool aligned) {
  constexpr int kVector = 4;
  using Load = Pack<float, kVector>;
  int const lanes = 1 << log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  std::int64_t const row = grid_thread() >> log2_lanes;
  bool const exists = row < pass.view.outer;
  float total = Reducer::nothing();
  if (exists) {
    Element const element(pass, row);
    float const* const from = pass.input + row * pass.view.axis;
    auto const length = static_cast<int>(pass.view.axis);
    auto const reduce = [&](auto const& load) {
      constexpr int kInFlight = 4;
      int const step = kVector * lanes;
      for (int a = kVector * lane; a < length; a += kInFlight * step) {
        Load loaded[kInFlight];
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          if (a + k * step < length) {
            loaded[k] = load(from + a + k * step);
          }
        }
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          if (a + k * step < length) {
#pragma unroll
            for (float const value : loaded[k].lanes) {
              total = Reducer::combine(total, element(value));
            }
          }
        }
      }
    };
    if (aligned) {
      reduce([](float const* at) { return *reinterpret_cast<Load const*>(at); });
    } else {
      reduce([](float const* at) {
        Load loaded;
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
          loaded.lanes[k] = at[k];
        }
        return loaded;
      });
    }
  }
  total = reduce_lanes<Reducer>(total, lanes);
  if (exists && lane == 0) {
    pass.output[row] = pass.factor * total;
  }
}

inline constexpr int kStagedThreads = 64;

/// How blocks divide rows that they copy to shared memory. The order of additions depends on the
/// lanes alone.
struct StagedReduction {
  int log2_lanes;      ///< log2 of the lanes that share a row
  int log2_turns = 0;  ///< log2 of the rows of each group of lanes
  int log2_run = 0;    ///< log2 of the neighbouring rows among them
  std::int64_t rows;   ///< of a block
  std::size_t bytes;   ///< of shared memory

  /// Divides rows so that a block has about kBytes of them, but fewer if there are few rows.
  StagedReduction(AxisView const& view, int log2_lanes_of_row) : log2_lanes(log2_lanes_of_row) {
    constexpr std::size_t kBytes = std::size_t{17} << 10U;
    auto const rows_of = [&](int log2) {
      return std::int64_t{kStagedThreads} >> log2_lanes << log2;
    };
    while (staged_bytes<float>(rows_of(log2_turns + 1) * view.axis) <= kBytes &&
           ceil_div(view.outer, rows_of(log2_turns + 1)) >= kEnoughBlocks) {
      ++log2_turns;
    }
    // The rows of different groups then begin in different banks, or in few equal ones.
    int const distinct = log2_lanes - std::countr_zero(static_cast<std::uint64_t>(view.axis));
    log2_run = std::clamp(distinct, 0, log2_turns);
    rows = rows_of(log2_turns);
    bytes = staged_bytes<float>(rows * view.axis);
  }
};

/// Reduces short contiguous rows that begin anywhere, with a power of two of lanes per row, at most
/// a warp. A block copies neighbouring rows to shared memory.
template <class Reducer, class Element>
__global__ void __launch_bounds__(kStagedThreads)
    rows_by_staging_kernel(__grid_constant__ ReducePass const pass,
                           __grid_constant__ StagedReduction const division) {
  extern __shared__ uint4 shared[];
  auto const length = static_cast<int>(pass.view.axis);
  std::int64_t const first = blockIdx.x * division.rows;
  auto const rows = static_cast<int>(min(pass.view.outer - first, division.rows));
  float const* const from = pass.input + first * length;
  auto* const staged = staged_place<float>(shared, from);
  stage(staged, from, rows * length);
  wait_for_staged();
  int const lanes = 1 << division.log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  int const group = static_cast<int>(threadIdx.x) >> division.log2_lanes;
  int const groups = kStagedThreads >> division.log2_lanes;
  for (int turn = 0; turn < 1 << division.log2_turns; ++turn) {
    int const run = (turn >> division.log2_run) * groups + group;
    int const row = (run << division.log2_run) + (turn & ((1 << division.log2_run) - 1));
    bool const exists = row < rows;
    float total = Reducer::nothing();
    if (exists) {
      Element const element(pass, first + row);
      float const* const elements = staged + row * length;
#pragma unroll 8
      for (int a = lane; a < length; a += lanes) {
        total = Reducer::combine(total, element(elements[a]));
      }
    }
    total = reduce_lanes<Reducer>(total, lanes);
    if (exists && lane == 0) {
      pass.output[first + row] = pass.factor * total;
    }
  }
}

/// Reduces long contiguous rows, with a block per chunk of a row.
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads)
    rows_by_blocks_kernel(__grid_constant__ ReducePass const pass) {
  std::int64_t const row = blockIdx.x / pass.chunks;
  std::int64_t const chunk = blockIdx.x - row * pass.chunks;
  std::int64_t const end = pass.end_of_chunk(chunk);
  Element const element(pass, row);
  float const* const from = pass.input + row * pass.view.axis;
  auto const first = chunk * pass.chunk_length + threadIdx.x;
  float total = reduce_steps<8>(
      Reducer{}, first, end, kBlockThreads, element, [=](std::int64_t a) { return from[a]; });
  total = reduce_block<Reducer>(total);
  if (threadIdx.x == 0) {
    pass.output[blockIdx.x] = pass.factor * total;
  }
}

/// Reduces columns with one thread per column: for a short axis, or very many columns.
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads)
    columns_by_threads_kernel(__grid_constant__ ReducePass const pass) {
  std::int64_t const place = grid_thread();
  if (place >= pass.view.outer * pass.view.inner) {
    return;
  }
  std::int64_t const outer = place / pass.view.inner;
  std::int64_t const column = place - outer * pass.view.inner;
  Element const element(pass, place);
  float const* const from = pass.input + outer * pass.view.axis * pass.view.inner + column;
  auto const inner = pass.view.inner;
  float const total = reduce_steps<8>(
      Reducer{}, 0, pass.view.axis, 1, element, [=](std::int64_t a) { return from[a * inner]; });
  pass.output[place] = pass.factor * total;
}

/// Reduces few columns of a long axis, with a block per chunk of the axis and tile of columns:
///
///   thread (r, c) of [threads / columns, columns] takes rows r, r + threads / columns, … of the
///   chunk; then the threads with r = 0 combine the results of their column, front to back
template <class Reducer, class Element>
__global__ void __launch_bounds__(kBlockThreads, 4)
    columns_by_tiles_kernel(__grid_constant__ ReducePass const pass, int log2_columns) {
  __shared__ float tile[kBlockThreads];
  int const columns = 1 << log2_columns;
  int const rows = kBlockThreads >> log2_columns;
  int const row = static_cast<int>(threadIdx.x) >> log2_columns;
  std::int64_t const tiles = ceil_div<std::int64_t>(pass.view.inner, columns);
  std::int64_t const slab = blockIdx.x / tiles;  // a chunk of the axis at one index of `outer`
  std::int64_t const outer = slab / pass.chunks;
  std::int64_t const chunk = slab - outer * pass.chunks;
  std::int64_t const column =
      (blockIdx.x - slab * tiles) * columns + (static_cast<int>(threadIdx.x) & (columns - 1));
  Running<Reducer> own;
  if (column < pass.view.inner) {
    Element const element(pass, outer * pass.view.inner + column);
    std::int64_t const end = pass.end_of_chunk(chunk);
    float const* const from = pass.input + outer * pass.view.axis * pass.view.inner + column;
    constexpr int kInFlight = 16;  // number of loads in flight, also at the end of the chunk
    static_assert(kInFlight <= kTermsOfPart);
    for (std::int64_t a = chunk * pass.chunk_length + row; a < end; a += kInFlight * rows) {
      float values[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        std::int64_t const at = a + k * rows;
        values[k] = at < end ? element(from[at * pass.view.inner]) : Reducer::nothing();
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        own.add(values[k]);
      }
      own.fold();
    }
  }
  tile[threadIdx.x] = own.get();
  __syncthreads();
  if (row != 0 || column >= pass.view.inner) {
    return;
  }
  float const total = reduce_steps<8>(
      Reducer{},
      0,
      rows,
      1,
      [](float value) { return value; },
      [&](std::int64_t other) { return tile[(other << log2_columns) + threadIdx.x]; });
  pass.output[slab * pass.view.inner + column] = pass.factor * total;
}

enum class ReduceWay : std::uint8_t {
  rows_by_lanes,
  rows_by_staging,
  rows_by_blocks,
  columns_by_threads,
  columns_by_tiles
};

/// The kernel and the division with which a view is reduced. The plan, and therefore the order of
/// the additions, depends only on the sizes of the view.
struct ReducePlan {
  ReduceWay way;
  int log2 = 0;  ///< log2 of the lanes per row, or of the columns per tile
  std::int64_t chunks = 1;
  std::int64_t chunk_length = 0;
};

inline int log2_of_lanes(std::int64_t wanted) {
  auto const most = std::min<std::int64_t>(std::max<std::int64_t>(wanted, 1), 32);
  return std::bit_width(static_cast<unsigned>(most - 1));
}

/// Returns a copy of the plan that cuts the axis into chunks of at least `least` elements, for
/// about kEnoughBlocks blocks. With a single chunk there would be `blocks` blocks.
inline ReducePlan chunked(ReducePlan plan,
                          std::int64_t axis,
                          std::int64_t blocks,
                          std::int64_t least) {
  auto const wanted = std::min(ceil_div(kEnoughBlocks, blocks), ceil_div(axis, least));
  plan.chunk_length = ceil_div(axis, std::max<std::int64_t>(wanted, 1));
  plan.chunks = ceil_div(axis, plan.chunk_length);
  return plan;
}

/// Returns the plan of the reduction of a view with at least one output.
inline ReducePlan reduce_plan(AxisView const& view, bool may_chunk = true) {
  constexpr std::int64_t kLongestOfAWarp = 1024;
  constexpr std::int64_t kLeastOfABlock = 4096;
  constexpr std::int64_t kLongestOfAThread = 64;
  constexpr std::int64_t kManyThreads = std::int64_t{1} << 17U;
  constexpr std::int64_t kLeastOfAThread = 8;
  // The longest axis that a narrow tile of columns reduces without chunks. Such an axis takes at
  // most two rounds of loads instead of one, which is faster than a second launch that combines
  // chunks.
  constexpr std::int64_t kLongestOfATile = 1024;
  constexpr std::int64_t kFewBlocks = 256;  // two per multiprocessor
  constexpr int kLog2OfASector = 3;         // log2 of the floats in 32 bytes, the smallest transfer
  if (view.inner == 1) {
    if (view.axis <= kLongestOfAWarp && view.axis % 4 != 0) {
      return {ReduceWay::rows_by_staging,
              log2_of_lanes(ceil_div<std::int64_t>(view.axis, 32)),
              1,
              view.axis};
    }
    if (view.axis <= kLongestOfAWarp) {
      // Elements per lane: enough for several loads of 16 bytes in flight.
      std::int64_t const of_lane = view.axis <= 64 ? 8 : 16;
      return {ReduceWay::rows_by_lanes, log2_of_lanes(ceil_div(view.axis, of_lane)), 1, view.axis};
    }
    ReducePlan const whole{ReduceWay::rows_by_blocks, 0, 1, view.axis};
    return may_chunk ? chunked(whole, view.axis, view.outer, kLeastOfABlock) : whole;
  }
  if (view.axis <= kLongestOfAThread || view.outputs() >= kManyThreads) {
    return {ReduceWay::columns_by_threads, 0, 1, view.axis};
  }
  int const log2_columns = log2_of_lanes(view.inner);
  int const log2_narrow = std::min(log2_columns, kLog2OfASector);
  std::int64_t const narrow_tiles = ceil_div(view.inner, std::int64_t{1} << log2_narrow);
  if (view.axis <= kLongestOfATile && view.outer * narrow_tiles <= kFewBlocks) {
    return {ReduceWay::columns_by_tiles, log2_narrow, 1, view.axis};
  }
  std::int64_t const tiles = ceil_div(view.inner, std::int64_t{1} << log2_columns);
  std::int64_t const least = (kBlockThreads >> log2_columns) * kLeastOfAThread;
  ReducePlan const whole{ReduceWay::columns_by_tiles, log2_columns, 1, view.axis};
  return may_chunk ? chunked(whole, view.axis, view.outer * tiles, least) : whole;
}

template <class Reducer, class Element>
void launch_reduction(CudaStream stream, ReducePlan const& plan, ReducePass const& pass) {
  auto const& view = pass.view;
  auto const handle = stream.handle;
  switch (plan.way) {
    case ReduceWay::rows_by_lanes:
      rows_by_lanes_kernel<Reducer, Element>
          <<<grid_for(view.outer, kBlockThreads >> plan.log2), kBlockThreads, 0, handle>>>(
              pass, plan.log2, quads_fit(pass.input));
      break;
    case ReduceWay::rows_by_staging: {
      StagedReduction const division(view, plan.log2);
      rows_by_staging_kernel<Reducer, Element>
          <<<grid_for(view.outer, division.rows), kStagedThreads, division.bytes, handle>>>(
              pass, division);
      break;
    }
    case ReduceWay::rows_by_blocks:
      rows_by_blocks_kernel<Reducer, Element>
          <<<grid_for(view.outer * plan.chunks, 1), kBlockThreads, 0, handle>>>(pass);
      break;
    case ReduceWay::columns_by_threads:
      columns_by_threads_kernel<Reducer, Element>
          <<<grid_for(view.outputs(), kBlockThreads), kBlockThreads, 0, handle>>>(pass);
      break;
    case ReduceWay::columns_by_tiles: {
      auto const tiles = ceil_div(view.inner, std::int64_t{1} << plan.log2);
      columns_by_tiles_kernel<Reducer, Element>
          <<<grid_for(view.outer * plan.chunks * tiles, 1), kBlockThreads, 0, handle>>>(pass,
                                                                                        plan.log2);
      break;
    }
  }
  check_launch("reduce_axis");
}

/// Computes output[o, i] = factor * (the reduction over a of element(input[o, a, i])), in one
/// launch or in two that pass partial results through `workspace`, which must have
/// reduce_axis_workspace_bytes() bytes.
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
  ReducePlan const plan = reduce_plan(view);
  if (plan.chunks == 1) {
    launch_reduction<Reducer, Element>(
        stream, plan, {input, extremum, output, view, 1, plan.chunk_length, factor});
    return;
  }
  auto* const partials = static_cast<float*>(workspace);
  launch_reduction<Reducer, Element>(
      stream, plan, {input, extremum, partials, view, plan.chunks, plan.chunk_length, 1.0F});
  AxisView const rest{view.outer, plan.chunks, view.inner};
  launch_reduction<Reducer, Itself>(
      stream, reduce_plan(rest, false), {partials, nullptr, output, rest, 1, rest.axis, factor});
}

}  // namespace msstream::ops::kernels
