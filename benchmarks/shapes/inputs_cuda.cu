// SPDX-License-Identifier: Apache-2.0
#include "cuda_success.hpp"
#include "inputs.hpp"
#include "lookup/drawn_ids.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace benchmarks::shapes {

namespace {

constexpr int kThreads = 256;

/// Makes half of the ids equal, by a hash of the position, and spreads ids over all values of their
/// type, by an odd factor.
template <class Id>
__global__ void change_ids(Id* ids, std::int64_t count, bool halves, bool spreads) {
  using Word = std::make_unsigned_t<Id>;
  auto const place = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (place >= count) {
    return;
  }
  auto bits = static_cast<std::uint32_t>(place) * 0x9E3779B1U;
  bits = (bits ^ (bits >> 15U)) * 0x85EBCA77U;
  auto id = static_cast<Word>(ids[place]);
  if (halves && (bits >> 31U) != 0) {
    id = 1;
  }
  if (spreads) {
    id *= static_cast<Word>(0x9E3779B97F4A7C15ULL);
  }
  ids[place] = static_cast<Id>(id);
}

}  // namespace

template <class Id>
void draw_ids(Id* ids, std::int64_t count, IdDraw const& draw, CUstream_st* stream) {
  constexpr double kExponent = 1.05;
  auto const blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  if (blocks == 0) {
    return;
  }
  lookups::draw_ids<<<blocks, kThreads, 0, stream>>>(
      ids, count, draw.below, draw.skew == Skew::power_law ? kExponent : 0.0);
  require_success(cudaGetLastError(), "draw_ids");
  if (draw.skew == Skew::half || draw.is_hashed) {
    change_ids<<<blocks, kThreads, 0, stream>>>(
        ids, count, draw.skew == Skew::half, draw.is_hashed);
    require_success(cudaGetLastError(), "change_ids");
  }
}

template void draw_ids(std::int32_t*, std::int64_t, IdDraw const&, CUstream_st*);
template void draw_ids(std::int64_t*, std::int64_t, IdDraw const&, CUstream_st*);

}  // namespace benchmarks::shapes
