// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops {

/// What an operation does with an id outside [0, rows), and with a bag whose offsets do not ascend
/// within the ids or values.
enum class OutOfRange : std::uint8_t {
  drop,   ///< the id contributes nothing, neither to the sum nor to the mean's count; the bag is
          ///< empty
  trap,   ///< as drop, and the next host synchronisation throws std::out_of_range
  count,  ///< as drop, and the id or the bag is counted
};

namespace kernels {

/// An id outside [0, rows), or a bag whose offsets do not ascend within [0, rows].
struct Caught {
  std::int64_t bag;  ///< -1 for an id
  std::int64_t id;   ///< or where the bag begins
  std::int64_t end;  ///< where the bag ends
  std::int64_t rows;
};

/// Written by kernels and read by the host: pinned, device-visible memory. One a device.
///
/// States of `set`: 0, nothing caught; 2, claimed by the one thread that writes the other fields;
/// 1, caught, the fields may be read (after an acquire load). The host sets it back to 0 when no
/// lookup is running.
struct IdTrap {
  std::uint32_t set;        ///< 0, 2 or 1 in this order; only 1 is for the host to act on
  std::uint32_t operation;  ///< index of the operation's name
  Caught caught;            ///< the first one seen
};

/// Where an operation reports ids outside [0, rows) and bad bags. Both pointers may be null: then
/// nothing is reported.
struct IdReport {
  std::uint64_t* count = nullptr;  ///< device memory; incremented by the number of bad ids and bags
  IdTrap* trap = nullptr;          ///< pinned memory; the first one is written if `set` was 0
  std::uint32_t operation = 0;     ///< copied into the trap
};

}  // namespace kernels
}  // namespace msstream::ops
