// SPDX-License-Identifier: Apache-2.0
#include "common/id_report.cuh"
#include "common/launch.cuh"
#include "ids/joined_bags.hpp"

#include <algorithm>
#include <cstdint>

// One launch for all pieces: blockIdx.y is the number of the piece.
namespace msstream::ops::kernels {
namespace {

constexpr int kJoinThreads = 256;
constexpr int kLanesOfBag = 8;  ///< threads that copy the ids of one bag
constexpr std::int64_t kMostJoinBlocks = 1024;

__global__ void __launch_bounds__(kJoinThreads)
    joined_lengths_kernel(__grid_constant__ JoinedBagsArgs const args, std::int64_t* lengths) {
  auto const& piece = args.at[blockIdx.y];
  auto const existing = existing_places(args.count, args.batch);
  for (auto bag = grid_thread(); bag < args.batch; bag += grid_stride()) {
    bool const is_bad = bag < existing && piece.is_bad(bag, args.batch);
    if (is_bad && args.report.count != nullptr) {
      atomicAdd(reinterpret_cast<unsigned long long*>(args.report.count), 1ULL);
    }
    auto const place = blockIdx.y * args.batch + bag;
    if (is_bad && args.report.trap != nullptr) {
      spring_trap(args.report,
                  Caught{args.first_bag + place,
                         piece.offsets.at(bag),
                         piece.offsets.at(bag + 1),
                         piece.capacity});
    }
    lengths[place] = is_bad || bag >= existing ? 0 : piece.length_of(bag);
  }
}

__global__ void __launch_bounds__(kJoinThreads)
    joined_ids_kernel(__grid_constant__ JoinedBagsArgs const args, JoinedPlaces const places) {
  auto const& piece = args.at[blockIdx.y];
  auto const* const offsets = places.offsets + blockIdx.y * args.batch;
  auto const lane = static_cast<int>(threadIdx.x) % kLanesOfBag;
  for (auto bag = grid_thread() / kLanesOfBag; bag < args.batch;
       bag += grid_stride() / kLanesOfBag) {
    auto const to = offsets[bag];
    auto const length = offsets[bag + 1] - to;
    if (length == 0) {
      continue;
    }
    auto const from = piece.begin_of(bag);
    for (std::int64_t i = lane; i < length; i += kLanesOfBag) {
      places.ids[to + i] = piece.ids.at(from + i);
      if (places.weights != nullptr) {
        places.weights[to + i] = piece.weights != nullptr ? piece.weights[from + i] : 1.0F;
      }
    }
  }
}

[[nodiscard]] dim3 grid_of(JoinedBagsArgs const& args, int threads_of_bag) {
  auto const blocks =
      std::min(kMostJoinBlocks, ceil_div<std::int64_t>(args.batch * threads_of_bag, kJoinThreads));
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(args.pieces)};
}

}  // namespace

void joined_lengths(CudaStream stream, JoinedBagsArgs const& args, std::int64_t* lengths) {
  if (args.batch == 0) {
    return;
  }
  joined_lengths_kernel<<<grid_of(args, 1), kJoinThreads, 0, stream>>>(args, lengths);
  check_launch("joined_lengths");
}

void joined_ids(CudaStream stream, JoinedBagsArgs const& args, JoinedPlaces const& places) {
  if (args.batch == 0) {
    return;
  }
  joined_ids_kernel<<<grid_of(args, kLanesOfBag), kJoinThreads, 0, stream>>>(args, places);
  check_launch("joined_ids");
}

}  // namespace msstream::ops::kernels
