// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_array.hpp"

#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// The properties of a search for distinct ids that determine its method and its workspace.
struct UniqueProblem {
  std::int64_t capacity;  ///< below 2^31
  bool is_wide;           ///< ids are 64 bits wide, otherwise 32
  std::int64_t below;     ///< ids outside [0, below) are left out; if 0, no id is left out
  UniqueOrder order;
};

/// Finds the distinct ids: values[u] = the u-th distinct id, counts[u] = the number of its
/// occurrences, and inverse[i] = the u with values[u] == ids[i], or -1 for an id that is left out.
/// Elements of values and counts beyond *unique_count, and of the inverse beyond *count, are not
/// written. Deterministic.
struct UniqueArgs {
  UniqueProblem problem;
  IdArray ids;                 ///< [capacity]
  std::int64_t const* count;   ///< device scalar, or null if all `capacity` ids exist
  void* values;                ///< [capacity], of the type of the ids
  std::int64_t* inverse;       ///< [capacity]
  std::int64_t* counts;        ///< [capacity]
  std::int64_t* unique_count;  ///< device scalar, written
  void* workspace;             ///< unique_workspace_bytes(stream, problem) bytes, 256-byte aligned
};
/// Returns the bytes of workspace that unique() needs, without a query of the device.
std::size_t unique_workspace_bytes(HostStream stream, UniqueProblem const& problem);
std::size_t unique_workspace_bytes(CudaStream stream, UniqueProblem const& problem);
void unique(HostStream stream, UniqueArgs const& args);
void unique(CudaStream stream, UniqueArgs const& args);

}  // namespace msstream::ops::kernels
