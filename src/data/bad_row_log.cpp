// SPDX-License-Identifier: Apache-2.0
#include "data/bad_row_log.hpp"

#include "data/chunk_access.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

namespace msstream::data::detail {

BadRowLog::BadRowLog(std::int64_t most) : most_(most) {
  require(most >= 0, "max_bad_rows: expected at least 0, found {}", most);
}

void BadRowLog::add_from(Chunk& chunk) {
  auto const log = std::exchange(ChunkAccess::bad_row_log(chunk), nullptr);
  for (auto& bad : std::exchange(ChunkAccess::bad_rows(chunk), {})) {
    log->add(std::move(bad));
  }
}

void BadRowLog::add(BadRow bad) {
  constexpr std::size_t shown_rows = 10;
  std::lock_guard const lock(mutex_);
  if (places_.contains({bad.file, bad.line})) {
    return;
  }
  if (bad.lines > most_ - rows_.count) {
    throw DataError(fmt::format("{}; more bad rows than max_bad_rows, which is {}{}{}",
                                bad.error,
                                most_,
                                rows_.first.empty() ? "" : "; the first: ",
                                fmt::join(rows_.first, "; ")));
  }
  places_.emplace(bad.file, bad.line);
  rows_.count += bad.lines;
  if (rows_.first.size() < shown_rows) {
    rows_.first.push_back(std::move(bad.error));
  }
}

BadRows BadRowLog::rows() const {
  std::lock_guard const lock(mutex_);
  return rows_;
}

}  // namespace msstream::data::detail
