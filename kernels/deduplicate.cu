// SPDX-License-Identifier: Apache-2.0
#include "cuda_check.cuh"
#include "deduplicate_block.cuh"

#include <msstream/ops/kernels/embedding.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kBlockCapacity = 4096;  ///< what one block sorts
constexpr std::size_t kAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return ceil_div(bytes, kAlignment) * kAlignment;
}

/// What the sort and the scan of CUB need: a quarter of a KiB of look-back state a tile of the
/// sort, whose tiles hold 1,000 places and more, and a few histograms. CUB refuses with an error
/// what is too little; asking it would ask the device.
constexpr std::size_t temporary_bytes(std::int64_t capacity) {
  return aligned(static_cast<std::size_t>(capacity)) + (std::size_t{1} << 18U);
}

/// The parts of the workspace, laid out one after the other; sized for 64-bit keys.
struct Workspace {
  std::byte* keys[2];
  unsigned* positions[2];
  std::byte* temporary;

  Workspace(void* memory, std::int64_t capacity) {
    auto* next = static_cast<std::byte*>(memory);
    auto const take = [&](std::size_t bytes) {
      auto* const taken = next;
      next += aligned(bytes);
      return taken;
    };
    auto const count = static_cast<std::size_t>(capacity);
    for (auto& part : keys) {
      part = take(count * sizeof(std::uint64_t));
    }
    for (auto& part : positions) {
      part = reinterpret_cast<unsigned*>(take(count * sizeof(unsigned)));
    }
    temporary = next;
  }

  static std::size_t bytes(std::int64_t capacity) {
    auto const count = static_cast<std::size_t>(capacity);
    return 2 * aligned(count * sizeof(std::uint64_t)) + 2 * aligned(count * sizeof(unsigned)) +
           temporary_bytes(capacity);
  }
};

template <class Key>
__global__ void make_keys_kernel(DeduplicateArgs args, Key* keys, unsigned* positions) {
  auto const place = grid_thread();
  if (place < args.bags.capacity) {
    keys[place] = sort_key<Key>(args, existing_places(args.bags), place);
    positions[place] = static_cast<unsigned>(place);
  }
}

/// ranks[k] = 1 where a unique id begins, else 0.
template <class Key>
__global__ void mark_first_kernel(Key const* keys, std::int64_t count, Key rows, unsigned* ranks) {
  auto const k = grid_thread();
  if (k < count) {
    ranks[k] = keys[k] != rows && (k == 0 || keys[k] != keys[k - 1]) ? 1 : 0;
  }
}

/// ranks: the inclusive sums of the marks, so that the unique id at k has the number ranks[k] - 1.
template <class Key>
__global__ void write_groups_kernel(DeduplicateArgs args,
                                    Key const* keys,
                                    unsigned const* positions,
                                    unsigned const* ranks) {
  auto const k = grid_thread();
  auto const count = args.bags.capacity;
  if (k >= count) {
    return;
  }
  auto const rows = static_cast<Key>(args.rows);
  bool const is_valid = keys[k] != rows;
  if (is_valid) {
    args.positions[k] = positions[k];
    if (k == 0 || keys[k] != keys[k - 1]) {
      args.unique_ids[ranks[k] - 1] = static_cast<std::int64_t>(keys[k]);
      args.starts[ranks[k] - 1] = k;
    }
  }
  bool const is_last_valid = is_valid && (k + 1 == count || keys[k + 1] == rows);
  bool const none_is_valid = k == 0 && !is_valid;
  if (is_last_valid || none_is_valid) {
    args.starts[ranks[k]] = is_valid ? k + 1 : 0;
    *args.unique_count = ranks[k];
  }
}

template <class Key>
void launch_device(CudaStream stream, DeduplicateArgs const& args, int key_bits) {
  auto const capacity = args.bags.capacity;
  auto const count = static_cast<int>(capacity);
  auto const blocks = grid_for(capacity, kThreads);
  Workspace const workspace(args.workspace, capacity);
  auto const keys_at = [&](int i) { return reinterpret_cast<Key*>(workspace.keys[i]); };
  cub::DoubleBuffer<Key> keys(keys_at(0), keys_at(1));
  cub::DoubleBuffer<unsigned> positions(workspace.positions[0], workspace.positions[1]);
  auto temporary = temporary_bytes(capacity);

  make_keys_kernel<<<blocks, kThreads, 0, stream>>>(args, keys.Current(), positions.Current());
  check_launch("deduplicate, keys");
  check_cuda(cub::DeviceRadixSort::SortPairs(
                 workspace.temporary, temporary, keys, positions, count, 0, key_bits, stream),
             "cub::DeviceRadixSort::SortPairs");
  // The keys' other buffer has served: the ranks take its place.
  auto* const ranks = reinterpret_cast<unsigned*>(keys.Alternate());
  mark_first_kernel<<<blocks, kThreads, 0, stream>>>(
      keys.Current(), capacity, static_cast<Key>(args.rows), ranks);
  check_launch("deduplicate, marks");
  check_cuda(
      cub::DeviceScan::InclusiveSum(workspace.temporary, temporary, ranks, ranks, count, stream),
      "cub::DeviceScan::InclusiveSum");
  write_groups_kernel<<<blocks, kThreads, 0, stream>>>(
      args, keys.Current(), positions.Current(), ranks);
  check_launch("deduplicate, groups");
}

template <class Key>
void launch_block(CudaStream stream, DeduplicateArgs const& args, int key_bits) {
  auto const capacity = args.bags.capacity;
  if (capacity <= 512) {
    deduplicate_block_kernel<Key, 256, 2><<<1, 256, 0, stream>>>(args, key_bits);
  } else if (capacity <= 2048) {
    deduplicate_block_kernel<Key, 512, 4><<<1, 512, 0, stream>>>(args, key_bits);
  } else {
    deduplicate_block_kernel<Key, 1024, 4><<<1, 1024, 0, stream>>>(args, key_bits);
  }
  check_launch("deduplicate, one block");
}

template <class Key>
void launch(CudaStream stream, DeduplicateArgs const& args) {
  // `rows` itself is a key: that of the places without an id.
  auto const key_bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(args.rows))));
  if (args.bags.capacity <= kBlockCapacity) {
    launch_block<Key>(stream, args, key_bits);
  } else {
    launch_device<Key>(stream, args, key_bits);
  }
}

}  // namespace

std::size_t deduplicate_workspace_bytes(CudaStream, std::int64_t capacity) {
  return capacity <= kBlockCapacity ? 0 : Workspace::bytes(capacity);
}

void deduplicate(CudaStream stream, DeduplicateArgs const& args) {
  require(args.bags.capacity <= std::numeric_limits<std::int32_t>::max(),
          "deduplicate: a capacity of ",
          args.bags.capacity,
          " ids is not below 2^31");
  if (args.rows <= std::int64_t{std::numeric_limits<std::uint32_t>::max()}) {
    launch<std::uint32_t>(stream, args);
  } else {
    launch<std::uint64_t>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
