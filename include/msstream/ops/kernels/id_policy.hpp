// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops {

/// What a lookup does with an id outside [0, rows).
enum class OutOfRange : std::uint8_t {
  drop,   ///< the id contributes nothing, neither to the sum nor to the mean's count
  trap,   ///< as drop, and the next host synchronisation throws std::out_of_range
  count,  ///< as drop, and the id is counted
};

namespace kernels {

/// Written by kernels and read by the host: pinned, device-visible memory. One a device.
///
/// States of `set`: 0, nothing caught; 2, claimed by the one thread that writes the other fields;
/// 1, caught, the fields may be read (after an acquire load). The host sets it back to 0 when no
/// lookup is running.
struct IdTrap {
  std::uint32_t set;        ///< 0, 2 or 1 in this order; only 1 is for the host to act on
  std::uint32_t operation;  ///< index of the operation's name
  std::int64_t id;          ///< the first bad id seen
  std::int64_t rows;        ///< what it should have been below
};

/// Where a lookup reports ids outside [0, rows). Both pointers may be null: then nothing is
/// reported.
struct IdReport {
  std::uint64_t* count = nullptr;  ///< device memory; incremented by the number of bad ids
  IdTrap* trap = nullptr;          ///< pinned memory; the first bad id is written if `set` was 0
  std::uint32_t operation = 0;     ///< copied into the trap
};

}  // namespace kernels
}  // namespace msstream::ops
