// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "embedding_tables_gradient.hpp"
#include "row_vector.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kCount = 4;  ///< columns of a lane

struct DeviceMath {
  static __device__ float add(float a, float b) { return __fadd_rn(a, b); }
  static __device__ float multiply(float a, float b) { return __fmul_rn(a, b); }
  static __device__ float divide(float a, float b) { return __fdiv_rn(a, b); }
  static __device__ float root(float a) { return __fsqrt_rn(a); }
};

// A thread a bag.
template <class Id, class Row>
__global__ void __launch_bounds__(kThreads)
    tell_places_kernel(TablePlacesArgs const args, bool has_default_ids, std::int64_t all_bags) {
  auto const i = grid_thread();
  if (i < all_bags) {
    auto const number = static_cast<unsigned>(i) / static_cast<unsigned>(args.bags.batch);
    auto const bag = i - number * args.bags.batch;
    tell_places<DeviceMath, Id, Row>(args, args.bags.tables[number], has_default_ids, number, bag);
  }
}

// Sums of sorted places that are cut into parts of equal length, a group of lanes each, so that no
// row that stands often holds up a launch:
//
//   ranks  0 0 0 1 | 1 1 1 1 | 1 2 3 3        part 0 stores row 0, part 2 rows 2 and 3
//   part      0    |    1    |    2           row 1: tails of 0 and 1 + head of 2
//
// A part stores the rows whose places it has all; what it has of a row that goes on behind it is
// its tail, of a row that began before it and ends in it its head. A second launch adds those.

struct Parts {
  std::int64_t places;  ///< of a part
  std::int64_t parts;

  explicit Parts(std::int64_t all_places)
      : places(std::clamp<std::int64_t>(ceil_div(all_places, kParts * kStep) * kStep, kStep, 256)),
        parts(ceil_div(all_places, places)) {}

 private:
  static constexpr std::int64_t kParts = 16'384;  // fill a large GPU
  static constexpr std::int64_t kStep = 16;
};

struct Part {
  std::int64_t begin;
  std::int64_t end;
  bool has_head = false;  ///< its first row began before it
  bool has_tail = false;  ///< its last row goes on behind it

  __device__ Part(TablesGradientArgs const& args, Parts const& parts, std::int64_t part)
      : begin(min(part * parts.places, args.places)), end(min(begin + parts.places, args.places)) {
    auto const goes_on = [&](std::int64_t border) {
      return args.ranks[border] >= 0 && args.ranks[border - 1] == args.ranks[border];
    };
    if (begin < end) {
      has_head = begin > 0 && goes_on(begin);
      has_tail = end < args.places && goes_on(end);
    }
  }
};

/// The first `count` of up to kCount columns, and zeros; tables of any width lie side by side, so
/// that rows may begin anywhere.
template <class T>
__device__ Columns<kCount> load_some(T const* from, int count) {
  constexpr std::uintptr_t kBytes = kCount * sizeof(T);
  if (count >= kCount && reinterpret_cast<std::uintptr_t>(from) % kBytes == 0) {
    return load_columns<kCount>(from);
  }
  Columns<kCount> columns;
#pragma unroll
  for (int c = 0; c < kCount; ++c) {
    if (c < count) {
      columns.at[c] = load_columns<1>(from + c).at[0];
    }
  }
  return columns;
}

__device__ void store_some(float* to, Columns<kCount> const& columns, int count) {
  if (count >= kCount && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    store_columns(to, columns);
    return;
  }
#pragma unroll
  for (int c = 0; c < kCount; ++c) {
    if (c < count) {
      to[c] = columns.at[c];
    }
  }
}

/// Where the gradient of a sorted place lies.
struct Source {
  std::int64_t element;
  int width;
  float factor;

  __device__ Source(TablesGradientArgs const& args, std::int64_t k, std::int64_t output_width) {
    auto const place = __ldg(args.positions + k);
    auto const bag = static_cast<unsigned>(__ldg(args.bags_of_places + place));
    factor = args.factors != nullptr ? __ldg(args.factors + place) : 1.0F;
    auto const number = bag / static_cast<unsigned>(args.batch);
    auto const& table = args.tables[number];
    width = __ldg(&table.width);
    element = (bag - number * args.batch) * output_width + __ldg(&table.first_column);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) sum_parts_kernel(TablesGradientArgs const args,
                                                             RowLanes shape,
                                                             Parts parts,
                                                             std::int64_t output_width,
                                                             float* tails,
                                                             float* heads) {
  constexpr int kInFlight = 4;
  auto const part = grid_thread() >> shape.log2_lanes;
  Part const mine(args, parts, part);
  if (mine.begin >= mine.end) {
    return;
  }
  int const first_rank = __ldg(args.ranks + mine.begin);
  if (first_rank < 0) {
    return;
  }
  auto const* const gradient = static_cast<T const*>(args.output_gradient);
  for (std::int64_t column = shape.lane() * kCount; column < shape.width;
       column += shape.lanes() * kCount) {
    auto const columns_of = [&](std::int64_t width) { return static_cast<int>(width - column); };
    int current = first_rank;
    int current_columns = 0;
    bool is_head = mine.has_head;
    Columns<kCount> sum;
    auto const store = [&] {
      auto* const row = is_head ? heads + part * shape.width : args.values + current * shape.width;
      store_some(row + column, sum, current_columns);
    };
    for (auto first = mine.begin; first < mine.end; first += kInFlight) {
      int ranks[kInFlight];
      int counts[kInFlight];
      Columns<kCount> loaded[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        ranks[k] = first + k < mine.end ? __ldg(args.ranks + first + k) : -1;
        counts[k] = 0;
        if (ranks[k] >= 0) {
          Source const source(args, first + k, output_width);
          counts[k] = columns_of(source.width);
          if (counts[k] > 0) {
            loaded[k] = load_some(gradient + source.element + column, counts[k]);
            loaded[k].multiply(source.factor);
          }
        }
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (ranks[k] >= 0) {
          if (ranks[k] != current) {
            store();
            current = ranks[k];
            is_head = false;
            sum = Columns<kCount>{};
          }
          current_columns = counts[k];
          sum.add(loaded[k]);
        }
      }
    }
    if (mine.has_tail) {
      store_some(tails + part * shape.width + column, sum, current_columns);
    } else {
      store();
    }
  }
}

/// The sum of rows [begin, end) of `tails`, and then of a head unless it is null; by one warp, in
/// order.
__device__ Columns<kCount> sum_of_tails(float const* tails,
                                        std::int64_t width,
                                        PlaceRange range,
                                        float const* head,
                                        std::int64_t column,
                                        int columns) {
  constexpr int kInFlight = 4;
  Columns<kCount> sum;
  for (auto first = range.begin; first < range.end; first += kInFlight) {
    Columns<kCount> rows[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (first + k < range.end) {
        rows[k] = load_some(tails + (first + k) * width + column, columns);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      sum.add(rows[k]);
    }
  }
  if (head != nullptr) {
    sum.add(load_some(head + column, columns));
  }
  return sum;
}

/// A row that began in an earlier part and ends in this one: the tails and the head to add.
struct Border {
  PlaceRange tails{0, 0};
  std::int64_t part = 0;
  std::int32_t rank = -1;  ///< below 0: no such row
  std::int32_t width = 0;

  __device__ Border(TablesGradientArgs const& args, Parts const& parts, std::int64_t number)
      : part(number) {
    Part const mine(args, parts, part);
    if (mine.has_head) {
      auto const first_rank = args.ranks[mine.begin];
      if (!mine.has_tail || args.ranks[mine.end] != first_rank) {
        rank = first_rank;
        tails = {args.starts[rank] / parts.places, part};
        auto const bag = static_cast<unsigned>(args.bags_of_places[args.positions[mine.begin]]);
        width = args.tables[bag / static_cast<unsigned>(args.batch)].width;
      }
    }
  }
  [[nodiscard]] __device__ bool is_long() const {
    constexpr std::int64_t kFew = 32;
    return rank >= 0 && tails.end - tails.begin > kFew;
  }
};

// A warp a part, and a block for long borders. No other warp writes the row. The blocks behind
// those find where each table begins.
__global__ void __launch_bounds__(kThreads) sum_borders_kernel(TablesGradientArgs const args,
                                                               Parts parts,
                                                               std::int64_t widest,
                                                               std::int64_t tables,
                                                               float const* tails,
                                                               float const* heads) {
  __shared__ bool is_long[kWarps];
  __shared__ float partials[kWarps][32 * kCount];
  auto const first_part = std::int64_t{blockIdx.x} * kWarps;
  auto const blocks_of_parts = ceil_div<std::int64_t>(parts.parts, kWarps);
  if (blockIdx.x >= blocks_of_parts) {
    auto const table = (blockIdx.x - blocks_of_parts) * kThreads + threadIdx.x;
    if (table <= tables) {
      args.table_starts[table] =
          count_not_above(args.unique_rows, *args.unique_count, args.first_rows[table] - 1);
    }
    return;
  }
  int const warp = static_cast<int>(threadIdx.x) / 32;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  Border const mine(args, parts, first_part + warp);
  if (lane == 0) {
    is_long[warp] = mine.is_long();
  }
  auto const sum_of = [&](Border const& border, PlaceRange range, bool has_head, int column) {
    float const* const head = has_head ? heads + border.part * widest : nullptr;
    return column < border.width
               ? sum_of_tails(tails, widest, range, head, column, border.width - column)
               : Columns<kCount>{};
  };
  auto const store = [&](Border const& border, Columns<kCount> const& sum, int column) {
    store_some(args.values + border.rank * widest + column, sum, border.width - column);
  };
  if (!mine.is_long()) {
    for (int column = lane * kCount; column < mine.width; column += 32 * kCount) {
      store(mine, sum_of(mine, mine.tails, true, column), column);
    }
  }
  __syncthreads();
  for (int owner = 0; owner < kWarps; ++owner) {
    if (!is_long[owner]) {
      continue;
    }
    Border const border(args, parts, first_part + owner);
    auto const share = ceil_div<std::int64_t>(border.tails.end - border.tails.begin, kWarps);
    auto const begin = min(border.tails.begin + warp * share, border.tails.end);
    PlaceRange const own{begin, min(begin + share, border.tails.end)};
    for (int base = 0; base < border.width; base += 32 * kCount) {
      int const column = base + lane * kCount;
      auto sum = sum_of(border, own, warp == kWarps - 1, column);
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        partials[warp][lane * kCount + c] = sum.at[c];
      }
      __syncthreads();
      if (warp == 0) {
        for (int other = 1; other < kWarps; ++other) {
#pragma unroll
          for (int c = 0; c < kCount; ++c) {
            sum.at[c] = __fadd_rn(sum.at[c], partials[other][lane * kCount + c]);
          }
        }
        store(border, sum, column);
      }
      __syncthreads();
    }
  }
}

template <class T>
void launch_sums(CudaStream stream, TablesGradientArgs const& args) {
  auto const& plan = *args.plan;
  RowLanes const shape(plan.widest, kCount);
  Parts const parts(args.places);
  auto* const tails = static_cast<float*>(args.workspace);
  auto* const heads = tails + parts.parts * plan.widest;
  if (parts.parts > 0) {
    sum_parts_kernel<T><<<grid_for(parts.parts, kThreads / shape.lanes()), kThreads, 0, stream>>>(
        args, shape, parts, plan.width, tails, heads);
    check_launch("embedding_tables_gradient, parts");
  }
  auto const tables = static_cast<std::int64_t>(plan.tables.size());
  auto const blocks =
      ceil_div<std::int64_t>(parts.parts, kWarps) + ceil_div<std::int64_t>(tables + 1, kThreads);
  sum_borders_kernel<<<grid_for(blocks, 1), kThreads, 0, stream>>>(
      args, parts, plan.widest, tables, tails, heads);
  check_launch("embedding_tables_gradient, borders");
}

}  // namespace

void embedding_tables_places(CudaStream stream, TablePlacesArgs const& args) {
  auto const& plan = *args.bags.plan;
  if (has_unused_places(args.bags)) {
    auto const places = static_cast<std::size_t>(place_capacity(args.bags));
    check_cuda(cudaMemsetAsync(args.rows, 0xFF, places * bytes_of(args.row_dtype), stream),
               "cudaMemsetAsync");
  }
  auto const all_bags = static_cast<std::int64_t>(plan.tables.size()) * args.bags.batch;
  if (all_bags == 0) {
    return;
  }
  with_place_types(args, [&]<class Id, class Row>(Id, Row) {
    tell_places_kernel<Id, Row><<<grid_for(all_bags, kThreads), kThreads, 0, stream>>>(
        args, plan.has_default_ids, all_bags);
    check_launch("embedding_tables_places");
  });
}

std::size_t embedding_tables_gradient_workspace_bytes(CudaStream,
                                                      std::int64_t places,
                                                      std::int64_t widest) {
  return 2 * static_cast<std::size_t>(Parts(places).parts * widest) * sizeof(float);
}

void embedding_tables_gradient(CudaStream stream, TablesGradientArgs const& args) {
  switch (args.gradient_dtype) {
    case DType::float32:
      return launch_sums<float>(stream, args);
    case DType::float16:
      return launch_sums<float16>(stream, args);
    case DType::bfloat16:
      return launch_sums<bfloat16>(stream, args);
    default:
      require(false, "embedding_tables_gradient: a gradient of ", name_of(args.gradient_dtype));
  }
}

}  // namespace msstream::ops::kernels
