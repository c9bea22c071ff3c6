// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/load_measures.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::support {

/// What a pool took, in bytes.
struct ServeMemory {
  std::size_t weights = 0;  ///< of one set
  std::size_t replica = 0;  ///< in use on the device, with weights of its own if it has such
  std::size_t replica_reserved =
      0;  ///< had from the driver for it: what its captured steps keep, too
  std::size_t replica_pinned = 0;  ///< on the host
  std::size_t reserved = 0;        ///< had from the driver at most, in all
};

/// How a pool did under a load.
struct TrialResult {
  LoadResult load = {};
  ServeMemory memory = {};
  bool captured = false;
  std::uint64_t swaps = 0;
};

}  // namespace msstream::support
