// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace benchmarks::workloads {

/// Bytes of allocations, log-uniform from [least, most].
struct SizeMix {
  std::size_t least;
  std::size_t most;

  [[nodiscard]] std::size_t draw(std::mt19937_64& random) const;
};

/// A block that is allocated on one stream, and freed on that or on another one.
struct TraceOperation {
  bool allocates;
  std::uint32_t block;
  int owner;  ///< the stream that it is allocated on
  int user;   ///< the stream that does this
  std::size_t bytes;
};

struct Trace {
  std::vector<TraceOperation> operations;
  std::uint32_t blocks = 0;
  std::size_t peak_live_bytes = 0;  ///< as asked for
};

struct TraceShape {
  int streams;
  int allocations;
  std::size_t live_bytes;  ///< never more at a time
  SizeMix sizes;
  double foreign_frees;  ///< part of the frees that another stream does
  std::uint64_t seed;
};

/// The same for the same shape, on every machine with this standard library.
///
/// One stream after the other dominates: it makes 70% of the allocations and may hold 65% of the
/// live bytes, the others share the rest, so that memory has to move between streams. Who exceeds
/// its part frees blocks of its own at random, and at the end everything is freed.
[[nodiscard]] Trace make_trace(TraceShape const& shape);

}  // namespace benchmarks::workloads
