// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "mixed/convert.hpp"

#include <algorithm>
#include <span>

namespace msstream::ops::kernels {
namespace {

constexpr int kConversionsPerLaunch = 64;
constexpr int kQuadsOfConversion = 2;

struct ConversionPiece {
  void const* from;
  void* to;
  std::int64_t count;
  unsigned first_block;
  bool aligned;
};
using ConversionTable = PieceTable<ConversionPiece, kConversionsPerLaunch>;

template <class From, class To>
__global__ void __launch_bounds__(kBlockThreads)
    convert_kernel(__grid_constant__ ConversionTable const table) {
  auto const& piece = piece_of_block(table.pieces, table.count);
  auto const block = static_cast<std::int64_t>(blockIdx.x - piece.first_block);
  QuadPlace<kQuadsOfConversion> const place(
      block * (kQuadsOfConversion * kBlockThreads) + threadIdx.x, piece.count, piece.aligned);
  if (place.exists()) {
    place.store(static_cast<To*>(piece.to), place.load(static_cast<From const*>(piece.from)));
  }
}

struct HalvesTable {
  void const* inputs[kHalvesPerLaunch];
  int count;
};

template <class T>
__global__ void __launch_bounds__(kBlockThreads) add_halves_kernel(
    __grid_constant__ HalvesTable const table, void* output, std::int64_t count, bool aligned) {
  auto const place = grid_place<2>(count, aligned);
  if (!place.exists()) {
    return;
  }
  auto const sum_of = [&](auto const& load) {
    auto sum = load(static_cast<T const*>(table.inputs[0]));
#pragma unroll 4
    for (int k = 1; k < table.count; ++k) {
      auto const term = load(static_cast<T const*>(table.inputs[k]));
      for (int lane = 0; lane < place.kLanes; ++lane) {
        sum.lanes[lane] += term.lanes[lane];
      }
    }
    return sum;
  };
  place.store(static_cast<T*>(output),
              place.whole ? sum_of([&](T const* from) { return place.load_whole(from); })
                          : sum_of([&](T const* from) { return place.load_part(from); }));
}

template <class From, class To>
void convert_arrays(CudaStream stream, std::span<Conversion const> arrays) {
  ConversionTable table;
  auto const launch = [&] {
    if (table.count > 0) {
      convert_kernel<From, To>
          <<<grid_for(table.blocks, 1), kBlockThreads, 0, stream.handle>>>(table);
      check_launch("convert");
    }
    table = {};
  };
  for (auto const& array : arrays) {
    if (array.count == 0) {
      continue;
    }
    table.add({array.from,
               array.to,
               array.count,
               0,
               quads_fit(static_cast<char const*>(array.from), static_cast<char*>(array.to))},
              ceil_div(array.count, std::int64_t{4} * kQuadsOfConversion * kBlockThreads));
    if (table.full()) {
      launch();
    }
  }
  launch();
}

}  // namespace

void convert(CudaStream stream, std::span<Conversion const> arrays, DType from, DType to) {
  with_real_type("convert: the source", from, [&](auto source) {
    with_real_type("convert: the result", to, [&](auto result) {
      convert_arrays<typename decltype(source)::type, typename decltype(result)::type>(stream,
                                                                                       arrays);
    });
  });
}

void add_halves(CudaStream stream,
                std::span<void const* const> inputs,
                void* output,
                std::int64_t count,
                DType dtype) {
  if (count == 0) {
    return;
  }
  with_real_type("add_halves: the terms", dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    // A later launch begins with the sum of the earlier ones.
    for (std::size_t first = 0; first < inputs.size();) {
      HalvesTable table{};
      if (first > 0) {
        table.inputs[table.count++] = output;
      }
      for (; first < inputs.size() && table.count < static_cast<int>(kHalvesPerLaunch); ++first) {
        table.inputs[table.count++] = inputs[first];
      }
      bool const aligned =
          quads_fit(static_cast<char*>(output)) &&
          std::all_of(table.inputs, table.inputs + table.count, [](void const* input) {
            return quads_fit(static_cast<char const*>(input));
          });
      add_halves_kernel<T><<<grid_for(count, 8 * kBlockThreads), kBlockThreads, 0, stream.handle>>>(
          table, output, count, aligned);
      check_launch("add_halves");
    }
  });
}

}  // namespace msstream::ops::kernels
