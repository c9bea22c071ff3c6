// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// Stands for the bag of an error that is more distinct rows than there is room for.
inline constexpr std::int64_t kTooManyRows = -2;

/// An error in the input of a lookup: an id outside [0, rows), a bag whose offsets do not ascend
/// within [0, rows], or `id` distinct rows where there is room for `rows`.
struct Caught {
  std::int64_t bag;  ///< number of the bag; -1 for an id; or kTooManyRows
  std::int64_t id;   ///< the id, the first offset of the bag, or the number of distinct rows
  std::int64_t end;  ///< the second offset of the bag; for an id of several tables, number + 1
  std::int64_t rows;
};

/// A report of the first bad id or bag of one device, in pinned, device-visible memory, which
/// kernels write and the host reads.
///
/// States of `set`: 0, nothing is reported; 2, one thread has claimed the report and writes the
/// other members; 1, the report is complete, and the members may be read after an acquire load. The
/// host sets it back to 0 when it has read them.
struct IdTrap {
  std::uint32_t set;        ///< 0, 2 or 1 in this order; the host acts on 1 only
  std::uint32_t operation;  ///< index of the operation's name
  Caught caught;            ///< the first bad id or bag
};

/// The locations where an operation reports ids outside [0, rows) and bad bags. If both pointers
/// are null, nothing is reported.
struct IdReport {
  std::uint64_t* count = nullptr;  ///< device memory, incremented by the number of bad ids and bags
  IdTrap* trap = nullptr;          ///< pinned memory; receives the first bad id or bag
  std::uint32_t operation = 0;     ///< index of the operation's name, copied into the IdTrap
};

}  // namespace msstream::ops::kernels
