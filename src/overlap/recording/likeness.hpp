// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstdint>

namespace msstream::overlap {

/// Whether two recordings may be two copies of one.
enum class Likeness : std::uint8_t {
  different,
  equal_contents,  ///< equal work and calls; a simulation may give that for two ranks
  same_process,    ///< of processes with equal numbers, from the same ns of Unix time on
};

[[nodiscard]] Likeness likeness(Recording const& first, Recording const& second);

}  // namespace msstream::overlap
