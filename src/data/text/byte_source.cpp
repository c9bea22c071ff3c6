// SPDX-License-Identifier: Apache-2.0
#include <msstream/data/byte_source.hpp>
#include <msstream/data/data_error.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#if __has_include(<zlib.h>)
#include <zlib.h>
#define MSSTREAM_GZIP 1
#else
#define MSSTREAM_GZIP 0
#endif

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::data {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18U;

[[noreturn]] void throw_errno(std::string const& name, std::string_view action) {
  throw DataError(
      fmt::format("{}: cannot {}: {}", name, action, std::generic_category().message(errno)));
}

/// A file descriptor with a read buffer, so that the first bytes can be inspected before they are
/// consumed.
class File {
 public:
  explicit File(std::filesystem::path const& path)
      : name_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw_errno(name_, "open");
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0 && S_ISDIR(status.st_mode)) {
      ::close(descriptor_);
      throw DataError(fmt::format("{}: expected a file, found a folder", name_));
    }
  }
  File(File const&) = delete;
  File& operator=(File const&) = delete;
  ~File() { ::close(descriptor_); }

  [[nodiscard]] std::string const& name() const noexcept { return name_; }

  /// Returns the buffered bytes, at least `wanted` of them unless the file ends before.
  [[nodiscard]] std::pair<char*, std::size_t> peek(std::size_t wanted) {
    if (end_ - begin_ < wanted) {
      std::move(buffer_.data() + begin_, buffer_.data() + end_, buffer_.data());
      end_ -= std::exchange(begin_, 0);
    }
    while (end_ - begin_ < wanted) {
      auto const count = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
      if (count < 0 && errno != EINTR) {
        throw_errno(name_, "read");
      }
      if (count == 0) {
        break;
      }
      end_ += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    return {buffer_.data() + begin_, end_ - begin_};
  }
  void consume(std::size_t bytes) noexcept { begin_ += bytes; }

  /// Skips bytes without reading them, as far as the file has them and can seek; returns how many.
  [[nodiscard]] std::int64_t jump(std::int64_t bytes) {
    std::int64_t const buffered = std::min(bytes, static_cast<std::int64_t>(end_ - begin_));
    begin_ += static_cast<std::size_t>(buffered);
    off_t const at = ::lseek(descriptor_, 0, SEEK_CUR);
    struct stat status {};
    if (at < 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      return buffered;
    }
    auto const ahead = std::clamp<std::int64_t>(status.st_size - at, 0, bytes - buffered);
    return ::lseek(descriptor_, ahead, SEEK_CUR) < 0 ? buffered : buffered + ahead;
  }

 private:
  std::string name_;
  int descriptor_;
  std::vector<char> buffer_ = std::vector<char>(kBufferBytes);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

bool at_gzip_member(File& file) {
  auto const [bytes, count] = file.peek(2);
  return count >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

class PlainBytes final : public ByteSource {
 public:
  explicit PlainBytes(std::unique_ptr<File> file) : file_(std::move(file)) {}

  std::size_t read(char* out, std::size_t bytes) override {
    auto const [begin, count] = file_->peek(1);
    std::size_t const taken = std::min(bytes, count);
    std::copy_n(begin, taken, out);
    file_->consume(taken);
    return taken;
  }

  void skip(std::int64_t bytes) override { ByteSource::skip(bytes - file_->jump(bytes)); }

 private:
  std::unique_ptr<File> file_;
};

#if MSSTREAM_GZIP

/// The functions of zlib, which is loaded when the first compressed file is opened: so a program
/// that links the library needs no zlib to be built.
struct Zlib {
  decltype(&::inflateInit2_) init;
  decltype(&::inflate) inflate;
  decltype(&::inflateReset) reset;
  decltype(&::inflateEnd) end;

  /// Returns the functions, or null if there is no zlib on this machine.
  static Zlib const* loaded() {
    static std::optional<Zlib> const zlib = load();
    return zlib ? &*zlib : nullptr;
  }

 private:
  static std::optional<Zlib> load() {
    void* const library = ::dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return std::nullopt;
    }
    Zlib const zlib{reinterpret_cast<decltype(init)>(::dlsym(library, "inflateInit2_")),
                    reinterpret_cast<decltype(inflate)>(::dlsym(library, "inflate")),
                    reinterpret_cast<decltype(reset)>(::dlsym(library, "inflateReset")),
                    reinterpret_cast<decltype(end)>(::dlsym(library, "inflateEnd"))};
    bool const complete = zlib.init != nullptr && zlib.inflate != nullptr &&
                          zlib.reset != nullptr && zlib.end != nullptr;
    return complete ? std::optional(zlib) : std::nullopt;
  }
};

/// Inflates consecutive gzip members, as `cat a.gz b.gz` writes them.
class GzipBytes final : public ByteSource {
 public:
  GzipBytes(std::unique_ptr<File> file, Zlib const& zlib) : file_(std::move(file)), zlib_(zlib) {
    constexpr int gzip_with_largest_window = 16 + MAX_WBITS;
    if (zlib_.init(
            &stream_, gzip_with_largest_window, ZLIB_VERSION, static_cast<int>(sizeof(z_stream))) !=
        Z_OK) {
      throw std::bad_alloc();
    }
  }
  GzipBytes(GzipBytes const&) = delete;
  GzipBytes& operator=(GzipBytes const&) = delete;
  ~GzipBytes() override { zlib_.end(&stream_); }

  std::size_t read(char* out, std::size_t bytes) override {
    auto const wanted = static_cast<uInt>(std::min(bytes, kBufferBytes));
    std::size_t produced = 0;
    while (produced == 0 && !finished_) {
      if (std::exchange(member_ended_, false)) {
        begin_next_member();
        continue;
      }
      auto const [input, available] = file_->peek(1);
      stream_.next_in = reinterpret_cast<Bytef*>(input);
      stream_.avail_in = static_cast<uInt>(available);
      stream_.next_out = reinterpret_cast<Bytef*>(out);
      stream_.avail_out = wanted;
      int const status = zlib_.inflate(&stream_, Z_NO_FLUSH);
      file_->consume(available - stream_.avail_in);
      produced = wanted - stream_.avail_out;
      member_ended_ = status == Z_STREAM_END;
      // Bytes produced before an error are valid, and the next call of inflate() reports the error
      // again.
      if (member_ended_ || produced > 0) {
        continue;
      }
      if (status != Z_OK && status != Z_BUF_ERROR) {
        throw DataError(fmt::format("{}: the gzip stream is damaged: {}",
                                    file_->name(),
                                    stream_.msg != nullptr ? stream_.msg : "unknown reason"));
      }
      if (available == 0) {
        throw DataError(fmt::format(
            "{}: the gzip stream is cut off after {} uncompressed bytes; was it copied completely?",
            file_->name(),
            total_ + stream_.total_out));
      }
    }
    return produced;
  }

 private:
  void begin_next_member() {
    total_ += stream_.total_out;
    if (at_gzip_member(*file_)) {
      zlib_.reset(&stream_);
      return;
    }
    // Skips zeros after the last member, as gzip(1) does: a file that is written in blocks, such as
    // to a tape, ends with zeros.
    for (auto rest = file_->peek(1); rest.second > 0 && rest.first[0] == '\0';
         rest = file_->peek(1)) {
      auto const* const end = std::find_if(
          rest.first, rest.first + rest.second, [](char byte) { return byte != '\0'; });
      file_->consume(static_cast<std::size_t>(end - rest.first));
    }
    if (file_->peek(1).second > 0) {
      throw DataError(
          fmt::format("{}: other bytes follow the end of the gzip stream", file_->name()));
    }
    finished_ = true;
  }

  std::unique_ptr<File> file_;
  Zlib const& zlib_;
  z_stream stream_{};
  std::size_t total_ = 0;
  bool member_ended_ = false;
  bool finished_ = false;
};

#endif

std::unique_ptr<ByteSource> inflated(std::unique_ptr<File> file) {
#if MSSTREAM_GZIP
  if (auto const* const zlib = Zlib::loaded()) {
    return std::make_unique<GzipBytes>(std::move(file), *zlib);
  }
  throw DataError(fmt::format(
      "{}: cannot read a gzip file: the library libz.so.1 is not on this machine", file->name()));
#else
  throw DataError(fmt::format(
      "{}: cannot read a gzip file: msstream was built without the header zlib.h", file->name()));
#endif
}

}  // namespace

void ByteSource::skip(std::int64_t bytes) {
  std::vector<char> discarded(
      static_cast<std::size_t>(std::clamp<std::int64_t>(bytes, 0, std::int64_t{1} << 18U)));
  while (bytes > 0) {
    auto const wanted = std::min(static_cast<std::int64_t>(discarded.size()), bytes);
    auto const count = read(discarded.data(), static_cast<std::size_t>(wanted));
    if (count == 0) {
      throw DataError(
          fmt::format("the data ends {} bytes before the position to continue at", bytes));
    }
    bytes -= static_cast<std::int64_t>(count);
  }
}

std::unique_ptr<ByteSource> open_bytes(std::filesystem::path const& path) {
  auto file = std::make_unique<File>(path);
  return at_gzip_member(*file) ? inflated(std::move(file))
                               : std::make_unique<PlainBytes>(std::move(file));
}

}  // namespace msstream::data
