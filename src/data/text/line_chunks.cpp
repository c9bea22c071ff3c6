// SPDX-License-Identifier: Apache-2.0
#include <msstream/data/data_error.hpp>
#include <msstream/data/detail/line_chunks.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

namespace msstream::data::detail {

namespace {

constexpr char const* kCrEnds = "line ends are CR; expected LF or CRLF";

/// Removes the first `bytes` bytes of the text and returns them without the line end after them.
std::string_view take(std::string_view& text, std::size_t bytes) {
  std::string_view line = text.substr(0, bytes);
  text.remove_prefix(line.size());
  if (line.ends_with('\n')) {
    line.remove_suffix(1);
  }
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

}  // namespace

std::int64_t count_line_ends(std::string_view text) {
  // Counts in bytes as long as they do not overflow, which the compiler does 16 at a time.
  std::int64_t count = 0;
  while (!text.empty()) {
    constexpr std::size_t lanes = 64;
    std::uint8_t counts[lanes] = {};
    auto const rounds = std::min<std::size_t>(text.size() / lanes, 255);
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        counts[lane] =
            static_cast<std::uint8_t>(counts[lane] + (text[round * lanes + lane] == '\n'));
      }
    }
    count = std::accumulate(std::begin(counts), std::end(counts), count);
    auto const done = rounds > 0 ? rounds * lanes : text.size();
    if (rounds == 0) {
      count += std::ranges::count(text, '\n');
    }
    text.remove_prefix(done);
  }
  return count;
}

std::string_view take_line(std::string_view& text) {
  return take(text, std::min(text.find('\n'), text.size() - 1) + 1);
}

std::string_view take_record(std::string_view& text, std::optional<Quoting> quoting) {
  return quoting ? take(text, RecordScanner(quoting).first_end(text)) : take_line(text);
}

void skip_blank_lines(LineChunk& chunk) {
  std::string_view rest = chunk.lines;
  std::int64_t blank = 0;
  for (std::string_view after = rest; !after.empty() && take_line(after).empty(); ++blank) {
    rest = after;
  }
  auto const taken = chunk.lines.size() - rest.size();
  chunk.lines.erase(0, taken);
  chunk.first_line += blank;
  chunk.offset += static_cast<std::int64_t>(taken);
}

std::optional<LineChunk> LineChunks::next() {
  scan();
  // The end of a chunk follows from its begin alone, however many bytes a read gives: it is that of
  // the last line in chunk_bytes, or in the smallest multiple of them that has one. So a reader
  // that begins there, as that of a resumed run, has the same chunks. The bytes that are left from
  // the chunk before are fewer; only reread() puts back more.
  auto wanted =
      std::max<std::size_t>(1, (buffer_.size() + chunk_bytes_ - 1) / chunk_bytes_) * chunk_bytes_;
  while (!is_over() && (buffer_.size() < wanted || last_end_ == 0)) {
    wanted += buffer_.size() < wanted ? 0 : chunk_bytes_;
    read_more(wanted);
    scan();
  }
  if (ended_ && !failure_ && scanner_.is_inside_quotes()) {
    fail(last_end_, "a quoted value of this row is not closed");
  }
  if (ended_ && !failure_ && has_cr_ends()) {
    fail(0, kCrEnds);
    last_end_ = 0;
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
  next_line_ += count_line_ends(lines);
  std::int64_t const offset = offset_;
  offset_ += static_cast<std::int64_t>(taken);
  return LineChunk{std::move(lines), first_line, offset};
}

void LineChunks::reread(LineChunk const& chunk, std::optional<Quoting> quoting) {
  buffer_.insert(0, chunk.lines);
  next_line_ = chunk.first_line;
  offset_ = chunk.offset;
  scanner_ = RecordScanner(quoting);
  scanned_ = 0;
  last_end_ = 0;
}

void LineChunks::skip_to(std::int64_t offset, std::int64_t line) {
  bytes_->skip(offset);
  offset_ = offset;
  next_line_ = line;
  began_ = offset > 0;
}

void LineChunks::read_more(std::size_t wanted) {
  std::size_t const filled = buffer_.size();
  std::size_t count = 0;
  try {
    buffer_.resize(wanted);
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
      offset_ += static_cast<std::int64_t>(mark.size());
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
         has_cr_ends()
             ? kCrEnds
             : fmt::format("the line is longer than {} bytes{}",
                           kLongestRecord,
                           scanner_.is_inside_quotes() ? "; is a quoted value not closed?" : ""));
  }
}

bool LineChunks::has_cr_ends() const {
  auto const cr = buffer_.find('\r');
  return next_line_ == 1 && cr < buffer_.size() - 1 &&
         buffer_.find_first_of("\n\"") == std::string::npos;
}

void LineChunks::fail(std::size_t at, std::string_view reason) {
  auto const line = next_line_ + std::ranges::count(std::string_view(buffer_).substr(0, at), '\n');
  failure_ = std::make_exception_ptr(DataError(fmt::format("{}:{}: {}", name_, line, reason)));
}

}  // namespace msstream::data::detail
