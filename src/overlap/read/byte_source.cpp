// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/byte_source.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace msstream::overlap {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 18U;
constexpr std::size_t kMagicBytes = 16;

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

}  // namespace

struct ByteSource::Inflate {
  Inflate() : bytes(kPieceBytes) {
    constexpr int gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream, gzip_only) != Z_OK) {
      throw std::runtime_error("zlib cannot be used: out of memory, or another version");
    }
  }
  Inflate(Inflate const&) = delete;
  Inflate& operator=(Inflate const&) = delete;
  ~Inflate() { inflateEnd(&stream); }

  z_stream stream{};
  std::vector<char> bytes;
  bool between_members = false;
};

ByteSource::ByteSource(std::filesystem::path const& file, ReadOptions const& options)
    : name_(file.string()), progress_(options.progress), stored_(kPieceBytes) {
  file_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) {
    fail(std::strerror(errno));
  }
  try {
    struct stat status {};
    if (::fstat(file_, &status) != 0) {
      fail(std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) {
      fail("is a folder");
    }
    size_ = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
    while (stored_end_ < kMagicBytes && fill() != 0) {
    }
    if (is_gzip(magic())) {
      inflate_ = std::make_unique<Inflate>();
    }
  } catch (...) {
    ::close(file_);
    throw;
  }
}

ByteSource::~ByteSource() {
  ::close(file_);
}

std::string_view ByteSource::magic() const noexcept {
  return {stored_.data() + stored_begin_, std::min(kMagicBytes, stored_end_ - stored_begin_)};
}

/// Reads more bytes behind those that are there, and returns how many.
std::size_t ByteSource::fill() {
  while (true) {
    auto const count = ::read(file_, stored_.data() + stored_end_, stored_.size() - stored_end_);
    if (count >= 0) {
      stored_end_ += static_cast<std::size_t>(count);
      done_ += static_cast<std::size_t>(count);
      return static_cast<std::size_t>(count);
    }
    if (errno != EINTR) {
      fail(std::strerror(errno));
    }
  }
}

std::string_view ByteSource::next() {
  auto piece = next_piece();
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (!has_begun_ && piece.starts_with(kMark)) {
    piece.remove_prefix(kMark.size());
  }
  has_begun_ = true;
  return piece;
}

std::string_view ByteSource::next_piece() {
  if (inflate_) {
    return next_inflated();
  }
  if (stored_begin_ == stored_end_) {
    stored_begin_ = stored_end_ = 0;
    fill();
  }
  std::string_view const piece(stored_.data() + stored_begin_, stored_end_ - stored_begin_);
  stored_begin_ = stored_end_;
  tell_progress(piece.empty());
  return piece;
}

std::string_view ByteSource::next_inflated() {
  auto& stream = inflate_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(inflate_->bytes.data());
  stream.avail_out = static_cast<uInt>(inflate_->bytes.size());
  while (stream.avail_out != 0) {
    if (stored_begin_ == stored_end_) {
      stored_begin_ = stored_end_ = 0;
      if (fill() == 0) {
        if (!inflate_->between_members) {
          fail(fmt::format(
              "truncated gzip: the file ends after {} bytes, in the middle of its data", done_));
        }
        break;
      }
    }
    if (inflate_->between_members) {
      // Another member follows. zlib refuses bytes that are none.
      inflateReset(&stream);
      inflate_->between_members = false;
    }
    stream.next_in = reinterpret_cast<Bytef*>(stored_.data() + stored_begin_);
    stream.avail_in = static_cast<uInt>(stored_end_ - stored_begin_);
    int const result = inflate(&stream, Z_NO_FLUSH);
    stored_begin_ = stored_end_ - stream.avail_in;
    if (result == Z_STREAM_END) {
      inflate_->between_members = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail(fmt::format("broken gzip near byte {}: {}",
                       done_ - stream.avail_in,
                       stream.msg != nullptr ? stream.msg : "unknown error"));
    }
  }
  std::string_view const piece(inflate_->bytes.data(), inflate_->bytes.size() - stream.avail_out);
  tell_progress(piece.empty());
  return piece;
}

void ByteSource::tell_progress(bool at_end) {
  if (!progress_) {
    return;
  }
  constexpr auto least_pause = std::chrono::milliseconds(100);
  auto const now = std::chrono::steady_clock::now();
  if (at_end || now - told_at_ >= least_pause) {
    told_at_ = now;
    progress_(std::min(done_ - (stored_end_ - stored_begin_), size_), size_);
  }
}

void ByteSource::fail(std::string_view problem) const {
  throw std::runtime_error(fmt::format("{}: {}", name_, problem));
}

}  // namespace msstream::overlap
