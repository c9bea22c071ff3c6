// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>

#include <cstdint>
#include <string>

namespace msstream::order {

using msstream::is_of_msstream;
using msstream::operator<<;

/// The index of a stream in the dependency tracker. An index is reused only once all work of its
/// earlier stream is complete, and its numbering continues, so a position keeps its meaning.
using StreamIndex = std::uint32_t;

/// The position of one operation: the `number`-th of its stream. Numbers start at 1; 0 means
/// "before everything". The number has 64 bits: 32 bits would wrap within hours, and waits would
/// then be skipped.
struct Position {
  StreamIndex stream = 0;  ///< number of the stream in its tracker
  std::uint64_t number = 0;

  friend bool operator==(Position const&, Position const&) = default;
};

/// Returns a text such as `stream 3 @ 7`.
[[nodiscard]] std::string to_string(Position const& position);

}  // namespace msstream::order
