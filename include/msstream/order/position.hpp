// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/print.hpp>
#include <msstream/base/text.hpp>

#include <cstdint>
#include <string>

namespace msstream::order {

using msstream::operator<<;

/// A stream's place in the tracker. A place is taken again only once all work of its earlier stream
/// is complete, and numbering goes on where that one ended: so a position never comes to mean
/// something else.
using StreamIndex = std::uint32_t;

/// One operation: the `number`-th of its stream. Numbers start at 1; 0 means "before everything".
/// 64 bits: a 32-bit number wraps within hours and would then let waits be skipped.
struct Position {
  StreamIndex stream = 0;
  std::uint64_t number = 0;

  [[nodiscard]] std::string describe() const { return text("stream ", stream, " @ ", number); }
  friend bool operator==(Position const&, Position const&) = default;
};

}  // namespace msstream::order
