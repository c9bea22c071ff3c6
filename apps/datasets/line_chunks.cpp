// SPDX-License-Identifier: Apache-2.0
#include "datasets/line_chunks.hpp"

#include "datasets/data_error.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace msstream::datasets {

std::optional<LineChunk> LineChunks::next() {
  scan();
  while (!is_over() && (buffer_.size() < chunk_bytes_ || last_end_ == 0)) {
    read_more();
    scan();
  }
  if (ended_ && !failure_ && scanner_.is_inside_quotes()) {
    fail(last_end_, "a quoted value of this row is not closed");
  }
  // Takes all bytes at the end of a file, since its last record may have no line end.
  std::size_t const taken = failure_ ? last_end_ : ended_ ? buffer_.size() : last_end_;
  if (taken == 0) {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return std::nullopt;
  }
  std::string lines = std::exchange(buffer_, {});
  buffer_.assign(lines, taken);
  lines.resize(taken);
  scanned_ -= taken;
  last_end_ = 0;
  std::int64_t const first_line = next_line_;
  next_line_ += std::ranges::count(lines, '\n');
  return LineChunk{std::move(lines), first_line};
}

void LineChunks::reread(LineChunk const& chunk, Quoting quoting) {
  buffer_.insert(0, chunk.lines);
  next_line_ = chunk.first_line;
  scanner_ = RecordScanner(quoting);
  scanned_ = 0;
  last_end_ = 0;
}

void LineChunks::read_more() {
  std::size_t const filled = buffer_.size();
  std::size_t count = 0;
  try {
    buffer_.resize(std::max(chunk_bytes_, 2 * filled));
    count = bytes_->read(buffer_.data() + filled, buffer_.size() - filled);
    ended_ = count == 0;
  } catch (DataError const&) {
    failure_ = std::current_exception();
  }
  buffer_.resize(filled + count);
  if (auto const nul = buffer_.find('\0', filled); nul != std::string::npos) {
    fail(nul, "expected text, found a NUL byte");
    buffer_.resize(nul);
  }
}

void LineChunks::leave_out_mark() {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (!began_ && (buffer_.size() >= mark.size() || is_over())) {
    began_ = true;
    if (buffer_.starts_with(mark)) {
      buffer_.erase(0, mark.size());
    }
  }
}

void LineChunks::scan() {
  leave_out_mark();
  if (!began_) {
    return;
  }
  auto const end = scanner_.last_end(std::string_view(buffer_).substr(scanned_));
  last_end_ = end > 0 ? scanned_ + end : last_end_;
  scanned_ = buffer_.size();
  if (!failure_ && buffer_.size() - last_end_ > kLongestRecord) {
    fail(last_end_,
         fmt::format("the line is longer than {} bytes{}",
                     kLongestRecord,
                     scanner_.is_inside_quotes() ? "; is a quoted value not closed?" : ""));
  }
}

void LineChunks::fail(std::size_t at, std::string_view reason) {
  auto const line = next_line_ + std::ranges::count(std::string_view(buffer_).substr(0, at), '\n');
  failure_ = std::make_exception_ptr(DataError(fmt::format("{}:{}: {}", name_, line, reason)));
}

}  // namespace msstream::datasets
