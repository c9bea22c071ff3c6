// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/bad_row_log.hpp"
#include "data/chunk_access.hpp"
#include "data/row_error.hpp"

#include <msstream/data/reader.hpp>

namespace msstream::data::detail {

/// Implements Reader::next() by next_task(): appends the next rows, checks them, and names the file
/// and the row of an error, as a Loader does.
inline bool next_rows(Reader& reader, Chunk& chunk) {
  auto const before = reader.position();
  auto const task = reader.next_task();
  if (!task) {
    return false;
  }
  with_places(reader, place_of_rows(before, reader.position()), [&] {
    task(chunk);
    ChunkAccess::check(chunk);
  });
  BadRowLog::add_from(chunk);
  return true;
}

}  // namespace msstream::data::detail
