// SPDX-License-Identifier: Apache-2.0
#include "data/bad_row_log.hpp"

#include "data/chunk_access.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

namespace msstream::data {

namespace detail {

void BadRowLog::attach(Reader& reader, std::int64_t most) {
  require(most >= 0, "max_bad_rows: expected at least 0, found {}", most);
  if (most > 0) {
    reader.bad_rows_ = std::make_shared<BadRowLog>(most);
  }
}

void BadRowLog::add(Reader& reader, Chunk& chunk) {
  for (auto& bad : std::exchange(ChunkAccess::bad_rows(chunk), {})) {
    reader.bad_rows_->add(std::move(bad));
  }
}

void BadRowLog::add(BadRow bad) {
  constexpr std::size_t shown_rows = 10;
  std::lock_guard const lock(mutex_);
  if (places_.contains({bad.file, bad.line})) {
    return;
  }
  if (rows_.count == most_) {
    throw DataError(fmt::format("{}; more bad rows than max_bad_rows, which is {}; the first: {}",
                                bad.error,
                                most_,
                                fmt::join(rows_.first, "; ")));
  }
  places_.emplace(bad.file, bad.line);
  ++rows_.count;
  if (rows_.first.size() < shown_rows) {
    rows_.first.push_back(std::move(bad.error));
  }
}

BadRows BadRowLog::rows() const {
  std::lock_guard const lock(mutex_);
  return rows_;
}

}  // namespace detail

BadRows Reader::bad_rows() const {
  return bad_rows_ ? bad_rows_->rows() : BadRows();
}

}  // namespace msstream::data
