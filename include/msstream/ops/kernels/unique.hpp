// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/id_array.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops {

/// In which order unique() numbers the distinct ids.
enum class UniqueOrder : std::uint8_t { ascending, first_occurrence };

namespace kernels {

/// What decides how distinct ids are found, and how much memory that takes.
struct UniqueProblem {
  std::int64_t capacity;  ///< below 2^31
  bool is_wide;           ///< ids of 64 bits, else of 32
  std::int64_t below;     ///< ids are in [0, below), the others are left out; 0: any id counts
  UniqueOrder order;
};

/// values[u] = the u-th distinct id, counts[u] = how often it occurs, and inverse[i] = the u with
/// values[u] == ids[i], -1 for ids that are left out. What lies beyond *unique_count, and of the
/// inverse beyond *count, is not touched. Deterministic.
struct UniqueArgs {
  UniqueProblem problem;
  IdArray ids;                 ///< [capacity]
  std::int64_t const* count;   ///< device scalar, or null for all of the capacity
  void* values;                ///< [capacity], of the width of the ids
  std::int64_t* inverse;       ///< [capacity]
  std::int64_t* counts;        ///< [capacity]
  std::int64_t* unique_count;  ///< device scalar, written
  void* workspace;             ///< unique_workspace_bytes(stream, problem) bytes, 256-byte aligned
};
/// Asks no device.
std::size_t unique_workspace_bytes(HostStream stream, UniqueProblem const& problem);
std::size_t unique_workspace_bytes(CudaStream stream, UniqueProblem const& problem);
void unique(HostStream stream, UniqueArgs const& args);
void unique(CudaStream stream, UniqueArgs const& args);

}  // namespace kernels
}  // namespace msstream::ops
