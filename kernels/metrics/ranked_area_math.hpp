// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/workspace_layout.hpp"
#include "metrics/metric_math.hpp"
#include "metrics/ranked_area.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The arrays of the workspace of ranked_area(), one after the other. The host uses only places[0].
struct RankedAreaWorkspace {
  static constexpr int kThreads = 256;
  static constexpr int kItems = 8;
  static constexpr int kTileKeys = kThreads * kItems;
  static constexpr int kBins = 256;
  static constexpr int kMostPasses = 8;

  std::uint64_t* keys[2];  ///< of 32 bits without groups
  unsigned* places[2];
  /// [2 classes, count + 1]: the weight of the examples of a class before each place of the order
  std::uint64_t* weights_before;
  std::uint64_t* tile_weights;  ///< [2 classes, tiles]
  std::uint64_t* won;           ///< [count], of each group twice the pairs won; zeros at first
  // The arrays from here on are zeros before the sort.
  unsigned* bins;
  unsigned* next_tiles;
  unsigned* pass_counts[2];
  std::size_t zero_bytes;
  std::size_t bytes;

  RankedAreaWorkspace(void* memory, std::int64_t count, bool has_groups) {
    WorkspaceLayout layout(memory);
    auto const tiles = tiles_of(count);
    for (int i = 0; i < 2; ++i) {
      keys[i] = layout.take<std::uint64_t>(has_groups ? count : (count + 1) / 2);
      places[i] = layout.take<unsigned>(count);
    }
    weights_before = layout.take<std::uint64_t>(2 * (count + 1));
    tile_weights = layout.take<std::uint64_t>(2 * tiles);
    auto const before = layout.bytes();
    won = layout.take<std::uint64_t>(has_groups ? count : 0);
    bins = layout.take<unsigned>(std::int64_t{kMostPasses} * kBins);
    next_tiles = layout.take<unsigned>(kMostPasses);
    pass_counts[0] = layout.take<unsigned>(tiles * kBins);
    pass_counts[1] = layout.take<unsigned>(tiles * kBins);
    bytes = layout.bytes();
    zero_bytes = bytes - before;
  }
  [[nodiscard]] void* zeros(void* memory) const {
    return static_cast<std::byte*>(memory) + (bytes - zero_bytes);
  }
  [[nodiscard]] static std::int64_t tiles_of(std::int64_t count) {
    return (count + kTileKeys - 1) / kTileKeys;
  }
};

/// Returns a weight in units of 2^-bits, rounded to the nearest.
MSSTREAM_HOST_DEVICE inline std::uint64_t counted_weight(RankedAreaArgs const& args,
                                                         std::int64_t place) {
  if (args.weights == nullptr) {
    return 1;
  }
  return static_cast<std::uint64_t>(
      std::floor(plus(times(args.weights[place], power_of_two(args.weight_bits)), 0.5)));
}

/// The weights of both classes in a group of examples.
struct ClassWeights {
  std::uint64_t positive;
  std::uint64_t negative;
};

/// Returns the term of a group in the sum of areas: the weight of its examples times its area.
MSSTREAM_HOST_DEVICE inline double group_term(std::uint64_t twice_won,
                                              ClassWeights const& weights) {
  double const pairs =
      times(static_cast<double>(weights.positive), static_cast<double>(weights.negative));
  double const area = static_cast<double>(twice_won) / times(2.0, pairs);
  return times(static_cast<double>(weights.positive + weights.negative), area);
}

}  // namespace msstream::ops::kernels
