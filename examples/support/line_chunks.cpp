// SPDX-License-Identifier: Apache-2.0
#include "line_chunks.hpp"

#include <msstream/base/text.hpp>
#include <msstream/support/data_error.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace msstream::support {

std::optional<LineChunk> LineChunks::next() {
  std::string lines = std::exchange(rest_, {});
  std::size_t filled = lines.size();
  std::size_t last_end = std::string::npos;
  while (!ended_ && (filled < chunk_bytes_ || last_end == std::string::npos)) {
    std::size_t const wanted = std::max(chunk_bytes_, 2 * filled);
    lines.resize(wanted);
    std::size_t const count = bytes_->read(lines.data() + filled, wanted - filled);
    ended_ = count == 0;
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
  if (lines.empty()) {
    return std::nullopt;
  }
  std::int64_t const first_line = next_line_;
  if (auto const nul = lines.find('\0'); nul != std::string::npos) {
    auto const before =
        std::count(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(nul), '\n');
    throw DataError(text(name_, ":", first_line + before, ": expected text, found a NUL byte"));
  }
  next_line_ += std::ranges::count(lines, '\n');
  return LineChunk{std::move(lines), first_line};
}

}  // namespace msstream::support
