// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace benchmarks::workloads {

/// Allocation sizes in bytes, log-uniform in [least, most].
struct SizeMix {
  std::size_t least;
  std::size_t most;

  [[nodiscard]] std::size_t draw(std::mt19937_64& random) const;
};

/// The allocation of a block on one stream, or its release on the same stream or another one.
struct TraceOperation {
  bool allocates;
  std::uint32_t block;
  int owner;  ///< the stream that the block is allocated on
  int user;   ///< the stream of this operation
  std::size_t bytes;
};

struct Trace {
  std::vector<TraceOperation> operations;
  std::uint32_t blocks = 0;
  std::size_t peak_live_bytes = 0;  ///< largest sum of the requested sizes of live blocks
};

struct TraceShape {
  int streams;
  int allocations;
  std::size_t live_bytes;  ///< upper bound on the bytes that are live at a time
  SizeMix sizes;
  double foreign_frees;  ///< share of the frees on a stream other than the owner
  std::uint64_t seed;
};

/// Makes the trace of allocations and frees of a shape. Equal shapes give equal traces on every
/// machine with this standard library.
///
/// One stream after another dominates: it makes 70% of the allocations and may hold 65% of the live
/// bytes, and the other streams share the rest, so that memory has to move between streams. A
/// stream that exceeds its share frees blocks of its own at random. At the end everything is freed.
[[nodiscard]] Trace make_trace(TraceShape const& shape);

}  // namespace benchmarks::workloads
