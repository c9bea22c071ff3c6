// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/require_int32.hpp"
#include "common/workspace_layout.hpp"
#include "ids/deduplicate.hpp"
#include "ids/deduplicate_block.cuh"
#include "ids/deduplicate_groups.cuh"
#include "ids/deduplicate_keys.cuh"
#include "ids/radix_sort.cuh"
#include "ids/sort_tiles.cuh"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

constexpr std::int64_t kBlockCapacity = 4096;  ///< the most positions that one block sorts

/// The arrays of a workspace for deduplication, laid out one after the other. The counters of tiles
/// are words of a key's size.
template <class Key>
struct Workspace {
  static constexpr int kMostPasses = static_cast<int>(sizeof(Key));

  Key* keys[2];
  unsigned* places[2];
  unsigned* descend;  ///< memory of OffsetsSeen::descend
  Key* pass_counts[2];
  /// `bins`, `next_tiles`, `group_counts` and `pass_counts[0]` are adjacent in memory and must be
  /// zero before the first launch.
  unsigned* bins;
  unsigned* next_tiles;
  Key* group_counts;
  std::size_t zero_bytes;
  std::size_t bytes;

  Workspace(void* memory, std::int64_t place_count) {
    WorkspaceLayout layout(memory);
    auto const tiles = with_sort_tile<Key, SmallSortTile>(place_count, [&]<class Tile>(Tile) {
      return ceil_div<std::int64_t>(place_count, Tile::kKeys);
    });
    for (int i = 0; i < 2; ++i) {
      keys[i] = layout.take<Key>(place_count);
      places[i] = layout.take<unsigned>(place_count);
    }
    descend = layout.take<unsigned>(OffsetsSeen::kMostBlocks);
    pass_counts[1] = layout.take<Key>(tiles * Digits::kBins);
    auto const before = layout.bytes();
    bins = layout.take<unsigned>(kMostPasses * Digits::kBins);
    next_tiles = layout.take<unsigned>(kMostPasses + 1);
    group_counts = layout.take<Key>(ceil_div(place_count, kGroupTile));
    pass_counts[0] = layout.take<Key>(tiles * Digits::kBins);
    bytes = layout.bytes();
    zero_bytes = bytes - before;
  }
};

/// Sets the workspace's counters to zero. If the ids of bags with invalid offsets are to be left
/// out, also checks whether the offsets ascend.
template <class Key, class Id>
OffsetsSeen prepare(CudaStream stream,
                    DeduplicateArgs const& args,
                    IdBags<Id> const& bags,
                    Workspace<Key> const& workspace) {
  if (bags.offsets == nullptr || !args.pools) {
    check_cuda(cudaMemsetAsync(workspace.bins, 0, workspace.zero_bytes, stream), "cudaMemsetAsync");
    return {};
  }
  auto const zeros = static_cast<std::int64_t>(workspace.zero_bytes / sizeof(unsigned));
  auto const blocks =
      std::min(OffsetsSeen::kMostBlocks, grid_for(std::max(zeros, bags.bags), kKeyThreads));
  OffsetsSeen const seen{workspace.descend, blocks};
  look_at_offsets_kernel<<<blocks, kKeyThreads, 0, stream>>>(bags, seen, workspace.bins, zeros);
  check_launch("deduplicate, offsets");
  return seen;
}

template <class Tile, class Key>
void launch_pass(CudaStream stream, SortPass<Key, Key> const& pass) {
  auto const tiles = grid_for(pass.count, Tile::kKeys);
  bool const is_last = pass.pass + 1 == pass.digits.passes;
  auto const launch = [&](auto is_first, auto last) {
    sort_pass_kernel<Key, Key, Tile::kThreads, Tile::kItems, is_first.value, last.value>
        <<<tiles, Tile::kThreads, 0, stream>>>(pass);
  };
  if (pass.pass == 0) {
    is_last ? launch(std::true_type{}, std::true_type{})
            : launch(std::true_type{}, std::false_type{});
  } else {
    is_last ? launch(std::false_type{}, std::true_type{})
            : launch(std::false_type{}, std::false_type{});
  }
  check_launch("deduplicate, sort");
}

template <class Key, class Id>
void launch_device(CudaStream stream,
                   DeduplicateArgs const& args,
                   IdBags<Id> const& bags,
                   int key_bits) {
  auto const places = place_capacity(args.bags);
  Digits const digits(key_bits);
  Workspace<Key> const workspace(args.workspace, places);
  auto const seen = prepare(stream, args, bags, workspace);
  auto const blocks = std::min(kMostKeyBlocks, grid_for(places, kKeyThreads * kKeysInFlight));
  make_keys_kernel<Key><<<blocks, kKeyThreads, 0, stream>>>(
      bags, seen, args.rows, places, digits, workspace.keys[0], workspace.bins);
  check_launch("deduplicate, keys");
  for (int p = 0; p < digits.passes; ++p) {
    bool const is_last = p + 1 == digits.passes;
    SortPass<Key, Key> const pass{
        workspace.keys[p % 2],
        workspace.places[p % 2],
        workspace.keys[1 - p % 2],
        is_last ? reinterpret_cast<unsigned*>(args.positions) : workspace.places[1 - p % 2],
        places,
        digits,
        p,
        static_cast<Key>(args.rows),
        workspace.bins + p * Digits::kBins,
        workspace.pass_counts[p % 2],
        workspace.pass_counts[1 - p % 2],
        workspace.next_tiles + p};
    with_sort_tile<Key, SmallSortTile>(places,
                                       [&]<class Tile>(Tile) { launch_pass<Tile>(stream, pass); });
  }
  write_groups_kernel<Key><<<grid_for(places, kGroupTile), kGroupThreads, 0, stream>>>(
      args,
      workspace.keys[digits.passes % 2],
      places,
      workspace.group_counts,
      workspace.next_tiles + Workspace<Key>::kMostPasses);
  check_launch("deduplicate, groups");
}

template <class Key, class Id>
void launch_block(CudaStream stream,
                  DeduplicateArgs const& args,
                  IdBags<Id> const& bags,
                  int key_bits) {
  auto const places = place_capacity(args.bags);
  if (places <= 512) {
    deduplicate_block_kernel<Key, Id, 256, 2><<<1, 256, 0, stream>>>(args, bags, key_bits);
  } else if (places <= 2048) {
    deduplicate_block_kernel<Key, Id, 512, 4><<<1, 512, 0, stream>>>(args, bags, key_bits);
  } else {
    deduplicate_block_kernel<Key, Id, 1024, 4><<<1, 1024, 0, stream>>>(args, bags, key_bits);
  }
  check_launch("deduplicate, one block");
}

template <class Key>
void launch(CudaStream stream, DeduplicateArgs const& args) {
  // The largest key is `rows`, which marks positions without an id.
  auto const key_bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(args.rows))));
  with_id_type("deduplicate", args.bags, [&](auto const& bags) {
    if (place_capacity(args.bags) <= kBlockCapacity) {
      launch_block<Key>(stream, args, bags, key_bits);
    } else {
      launch_device<Key>(stream, args, bags, key_bits);
    }
  });
}

}  // namespace

std::size_t deduplicate_workspace_bytes(CudaStream, std::int64_t places) {
  if (places <= kBlockCapacity) {
    return 0;
  }
  return std::max(Workspace<std::uint32_t>(nullptr, places).bytes,
                  Workspace<std::uint64_t>(nullptr, places).bytes);
}

void deduplicate(CudaStream stream, DeduplicateArgs const& args) {
  auto const places = place_capacity(args.bags);
  require_int32("deduplicate", places, "places of ids");
  if (args.rows <= std::int64_t{std::numeric_limits<std::uint32_t>::max()}) {
    launch<std::uint32_t>(stream, args);
  } else {
    launch<std::uint64_t>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
