// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"
#include "unique_groups.cuh"

#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// Sorting by the bits that ids need, then two launches that count and number. Without a bound on
// the ids all of their bits are sorted by: a table of hashes would find the distinct ids in fewer
// bytes, but how many they are is known on the device alone, so that sorting them would take
// launches for the capacity all the same.
namespace msstream::ops::kernels {

inline constexpr int kUniqueThreads = 256;
inline constexpr std::int64_t kUniqueBlockCapacity = 4096;  ///< what one block sorts
inline constexpr std::size_t kAlignment = 256;
inline constexpr unsigned kPositionBits = 32;  ///< below the key, where both are packed

constexpr std::size_t aligned(std::size_t bytes) {
  return ceil_div(bytes, kAlignment) * kAlignment;
}

/// What CUB's sort needs: a KiB of look-back state a tile of the sort, whose tiles hold 1,024
/// places and more, and a few histograms. CUB refuses with an error what is too little; asking it
/// would ask the device.
constexpr std::size_t temporary_bytes(std::int64_t capacity) {
  return aligned(static_cast<std::size_t>(capacity)) + (std::size_t{1} << 18U);
}

/// The parts of the workspace, one after the other; those that a problem does not need are empty.
struct UniqueWorkspace {
  std::uint64_t* keys[2];
  unsigned* positions[2];
  Begun* totals;
  std::int32_t* first_places;
  unsigned* group_counts;
  unsigned* numbers;  ///< of the groups, at their first places
  std::byte* temporary;
  std::size_t bytes = 0;

  UniqueWorkspace(void* memory, UniqueProblem const& problem) {
    auto const take = [&]<class T>(T*& part, std::int64_t count) {
      part = reinterpret_cast<T*>(static_cast<std::byte*>(memory) + bytes);
      bytes += aligned(static_cast<std::size_t>(count) * sizeof(T));
    };
    auto const capacity = problem.capacity;
    bool const is_packed = KeyCoding(problem).is_packed();
    bool const is_small = capacity <= kUniqueBlockCapacity;
    for (int i = 0; i < 2; ++i) {
      take(keys[i], is_small && i > 0 ? 0 : capacity);
      take(positions[i], is_packed || (is_small && i > 0) ? 0 : capacity);
    }
    take(totals, Tiles(capacity).count);
    auto const occurring = problem.order == UniqueOrder::first_occurrence ? capacity : 0;
    take(first_places, occurring);
    take(group_counts, occurring);
    take(numbers, occurring);
    take(temporary, is_small ? 0 : static_cast<std::int64_t>(temporary_bytes(capacity)));
  }
};

__device__ inline std::uint64_t key_at(UniqueArgs const& args,
                                       KeyCoding const& coding,
                                       std::int64_t existing,
                                       std::int64_t place) {
  return place < existing ? coding.key_of(args.ids.at(place)) : coding.last;
}

/// A stable sort leaves places that do not exist behind existing ones of the same key.
template <bool IsPacked>
__global__ void __launch_bounds__(kUniqueThreads)
    make_entries_kernel(UniqueArgs args, KeyCoding coding, UniqueWorkspace workspace) {
  auto const place = grid_thread();
  if (place >= args.problem.capacity) {
    return;
  }
  auto const key = key_at(args, coding, existing_ids(args), place);
  auto const position = static_cast<unsigned>(place);
  if constexpr (IsPacked) {
    workspace.keys[0][place] = key << kPositionBits | position;
  } else {
    workspace.keys[0][place] = key;
    workspace.positions[0][place] = position;
  }
}

/// Small batches are bound by launches, not by work: one block makes the entries and sorts them.
template <bool IsPacked, int Threads, int Items>
__global__ void __launch_bounds__(Threads)
    sort_by_block_kernel(UniqueArgs args, KeyCoding coding, UniqueWorkspace workspace) {
  using Value = std::conditional_t<IsPacked, cub::NullType, unsigned>;
  using Sort = cub::BlockRadixSort<std::uint64_t, Threads, Items, Value>;
  __shared__ typename Sort::TempStorage shared;
  auto const existing = existing_ids(args);
  auto const first = threadIdx.x * Items;
  std::uint64_t keys[Items];
  unsigned positions[Items];
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    positions[i] = first + i;
    keys[i] = key_at(args, coding, existing, positions[i]);
    if constexpr (IsPacked) {
      keys[i] = keys[i] << kPositionBits | positions[i];
    }
  }
  if constexpr (IsPacked) {
    Sort(shared).Sort(keys, kPositionBits, kPositionBits + coding.bits);
  } else {
    Sort(shared).Sort(keys, positions, 0, coding.bits);
  }
#pragma unroll
  for (int i = 0; i < Items; ++i) {
    if (first + i < args.problem.capacity) {
      workspace.keys[0][first + i] = keys[i];
      if constexpr (!IsPacked) {
        workspace.positions[0][first + i] = positions[i];
      }
    }
  }
}

template <bool IsPacked>
void sort_by_block(CudaStream stream,
                   UniqueArgs const& args,
                   KeyCoding const& coding,
                   UniqueWorkspace const& workspace) {
  if (args.problem.capacity <= 512) {
    sort_by_block_kernel<IsPacked, 256, 2><<<1, 256, 0, stream>>>(args, coding, workspace);
  } else if (args.problem.capacity <= 2048) {
    sort_by_block_kernel<IsPacked, 512, 4><<<1, 512, 0, stream>>>(args, coding, workspace);
  } else {
    sort_by_block_kernel<IsPacked, 1024, 4><<<1, 1024, 0, stream>>>(args, coding, workspace);
  }
  check_launch("unique, one block's sort");
}

/// Swaps the workspace's two arrays if the result lies in the second.
template <bool IsPacked>
void sort_by_device(CudaStream stream,
                    UniqueArgs const& args,
                    KeyCoding const& coding,
                    UniqueWorkspace& workspace) {
  auto const capacity = args.problem.capacity;
  auto const count = static_cast<int>(capacity);
  make_entries_kernel<IsPacked>
      <<<grid_for(capacity, kUniqueThreads), kUniqueThreads, 0, stream>>>(args, coding, workspace);
  check_launch("unique, keys");
  cub::DoubleBuffer<std::uint64_t> keys(workspace.keys[0], workspace.keys[1]);
  cub::DoubleBuffer<unsigned> positions(workspace.positions[0], workspace.positions[1]);
  auto temporary = temporary_bytes(capacity);
  if constexpr (IsPacked) {
    constexpr int kBegin = kPositionBits;
    check_cuda(
        cub::DeviceRadixSort::SortKeys(
            workspace.temporary, temporary, keys, count, kBegin, kBegin + coding.bits, stream),
        "cub::DeviceRadixSort::SortKeys");
  } else {
    check_cuda(cub::DeviceRadixSort::SortPairs(
                   workspace.temporary, temporary, keys, positions, count, 0, coding.bits, stream),
               "cub::DeviceRadixSort::SortPairs");
  }
  workspace.keys[0] = keys.Current();
  workspace.positions[0] = positions.Current();
}

}  // namespace msstream::ops::kernels
