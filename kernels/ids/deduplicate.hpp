// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ids/bag_view.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the number of positions that a lookup reads ids from: one per id, and one more per bag
/// if the bags have a default id.
[[nodiscard]] constexpr std::int64_t place_capacity(BagView const& bags) {
  return bags.capacity + (bags.default_id >= 0 ? bags.bags : 0);
}

/// Groups equal ids. unique_ids ascends; the positions of the u-th unique id are
/// positions[starts[u] : starts[u + 1]], in ascending order; ranks[k] is the u to which
/// positions[k] belongs. A position below the bags' capacity is an index into `ids`; position
/// capacity + b means the default id of bag b, which has no valid id.
///
/// Ids outside [0, rows) are left out: their positions come last, with a rank of -1. If `pools`,
/// the ids of bags with invalid offsets (BagOffsets::is_bad) are left out too; a lookup that does
/// not pool gives rows for such ids. Deterministic. Elements beyond the unique ids, and beyond the
/// positions of valid ids, are not written, except for ranks.
struct DeduplicateArgs {
  BagView bags;  ///< the ids; place_capacity() must be below 2^31
  std::int64_t rows;
  std::int64_t* unique_ids;    ///< [places]
  std::int32_t* starts;        ///< [places + 1]
  std::int32_t* positions;     ///< [places]
  std::int32_t* ranks;         ///< [places], ascending except for -1 at the end
  std::int64_t* unique_count;  ///< device scalar, written
  void* workspace;             ///< deduplicate_workspace_bytes(stream, places), 256-byte aligned
  bool pools = true;
};
/// Returns the bytes of workspace that deduplicate() needs, without a query of the device. Returns
/// 0 where the CUDA implementation needs one launch and no workspace.
std::size_t deduplicate_workspace_bytes(HostStream stream, std::int64_t places);
std::size_t deduplicate_workspace_bytes(CudaStream stream, std::int64_t places);
void deduplicate(HostStream stream, DeduplicateArgs const& args);
void deduplicate(CudaStream stream, DeduplicateArgs const& args);

}  // namespace msstream::ops::kernels
