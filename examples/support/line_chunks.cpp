// SPDX-License-Identifier: Apache-2.0
#include "line_chunks.hpp"

#include <msstream/base/text.hpp>
#include <msstream/support/data_error.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace msstream::support {

std::optional<LineChunk> LineChunks::next() {
  auto lines = next_whole_lines();
  cut_at_nul(lines);
  if (lines.empty()) {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return std::nullopt;
  }
  std::int64_t const first_line = next_line_;
  next_line_ += std::ranges::count(lines, '\n');
  return LineChunk{std::move(lines), first_line};
}

std::string LineChunks::next_whole_lines() {
  std::string lines = std::exchange(rest_, {});
  std::size_t filled = lines.size();
  std::size_t last_end = std::string::npos;
  while (!ended_ && !failure_ && (filled < chunk_bytes_ || last_end == std::string::npos)) {
    std::size_t const wanted = std::max(chunk_bytes_, 2 * filled);
    lines.resize(wanted);
    std::size_t count = 0;
    try {
      count = bytes_->read(lines.data() + filled, wanted - filled);
      ended_ = count == 0;
    } catch (DataError const&) {
      failure_ = std::current_exception();
    }
    // Only what is new can hold a line end that was not seen before.
    auto const end = std::string_view(lines).substr(filled, count).rfind('\n');
    last_end = end == std::string_view::npos ? last_end : filled + end;
    filled += count;
  }
  lines.resize(filled);
  if (!ended_) {
    rest_.assign(lines, last_end + 1);
    lines.resize(last_end + 1);
  }
  return lines;
}

void LineChunks::cut_at_nul(std::string& lines) {
  auto const nul = lines.find('\0');
  if (nul == std::string::npos) {
    return;
  }
  lines.resize(std::string_view(lines).substr(0, nul).rfind('\n') + 1);
  failure_ = std::make_exception_ptr(DataError(text(name_,
                                                    ":",
                                                    next_line_ + std::ranges::count(lines, '\n'),
                                                    ": expected text, found a NUL byte")));
}

}  // namespace msstream::support
