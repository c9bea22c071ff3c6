// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/trace_file.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#if __has_include(<zlib.h>)
#include <zlib.h>
#define MSSTREAM_GZIP 1
#else
#define MSSTREAM_GZIP 0
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

namespace msstream::overlap::record {

namespace {

constexpr std::size_t kHeaderBytes = 20;  ///< of a member: 10, 2 of a length, 8 of the extra field
constexpr char kGzipEnd[] = ".json.gz";
constexpr char kPlainEnd[] = ".json";
constexpr char kPartEnd[] = ".part";
constexpr std::string_view kPlainMark = "{\n";  ///< how a plain file begins

void append_little_endian(std::string& out, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>((value >> shift) & 0xFFU));
  }
}

std::uint32_t crc_of(std::string_view text) {
  static auto const table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t byte = 0; byte < entries.size(); ++byte) {
      std::uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
      }
      entries[byte] = value;
    }
    return entries;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (char const character : text) {
    crc = (crc >> 8U) ^ table[(crc ^ static_cast<unsigned char>(character)) & 0xFFU];
  }
  return ~crc;
}

/// Appends blocks of deflate that hold the text as it is.
void append_stored(std::string& out, std::string_view text) {
  constexpr std::size_t kLargest = 0xFFFF;
  do {
    std::string_view const block = text.substr(0, kLargest);
    text.remove_prefix(block.size());
    auto const length = static_cast<unsigned>(block.size());
    out.push_back(text.empty() ? '\1' : '\0');
    out.push_back(static_cast<char>(length & 0xFFU));
    out.push_back(static_cast<char>(length >> 8U));
    out.push_back(static_cast<char>(~length & 0xFFU));
    out.push_back(static_cast<char>((~length >> 8U) & 0xFFU));
    out.append(block);
  } while (!text.empty());
}

#if MSSTREAM_GZIP
/// zlib's functions, loaded at run time: the recorder must not bring a zlib into a program that has
/// another one.
struct Zlib {
  int (*init)(z_stream*, int, int, int, int, int, char const*, int) = nullptr;
  int (*deflate)(z_stream*, int) = nullptr;
  int (*end)(z_stream*) = nullptr;
  unsigned long (*crc)(unsigned long, unsigned char const*, unsigned) = nullptr;
};

Zlib const* zlib() {
  static std::optional<Zlib> const loaded = []() -> std::optional<Zlib> {
    void* const library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return {};
    }
    Zlib found;
    found.init = reinterpret_cast<decltype(found.init)>(dlsym(library, "deflateInit2_"));
    found.deflate = reinterpret_cast<decltype(found.deflate)>(dlsym(library, "deflate"));
    found.end = reinterpret_cast<decltype(found.end)>(dlsym(library, "deflateEnd"));
    found.crc = reinterpret_cast<decltype(found.crc)>(dlsym(library, "crc32"));
    bool const complete = found.init != nullptr && found.deflate != nullptr &&
                          found.end != nullptr && found.crc != nullptr;
    return complete ? std::optional<Zlib>(found) : std::nullopt;
  }();
  return loaded ? &*loaded : nullptr;
}

/// Appends compressed blocks of deflate; returns false, without a change, if zlib cannot.
bool append_compressed(std::string& out, std::string_view text, std::uint32_t& crc) {
  Zlib const* const functions = zlib();
  z_stream stream{};
  if (functions == nullptr || functions->init(&stream,
                                              1,
                                              Z_DEFLATED,
                                              -MAX_WBITS,
                                              8,
                                              Z_DEFAULT_STRATEGY,
                                              ZLIB_VERSION,
                                              static_cast<int>(sizeof stream)) != Z_OK) {
    return false;
  }
  auto* const bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  std::size_t const before = out.size();
  out.resize(before + text.size() + text.size() / 1000 + 64);
  stream.next_in = bytes;
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data() + before);
  stream.avail_out = static_cast<unsigned>(out.size() - before);
  bool const done = functions->deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(done ? before + stream.total_out : before);
  functions->end(&stream);
  crc = static_cast<std::uint32_t>(functions->crc(0, bytes, static_cast<unsigned>(text.size())));
  return done;
}
#else
bool append_compressed(std::string&, std::string_view, std::uint32_t&) {
  return false;
}
#endif

/// Writes all bytes; returns false with errno set if it cannot.
bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string numbered(std::string const& path, int number) {
  return number == 0 ? path : path + "-" + std::to_string(number + 1);
}

/// Renames without replacing another file: link() fails where a file exists.
std::string give_name(std::string const& part, std::string const& stem, char const* end) {
  for (int number = 0;; ++number) {
    std::string const path = numbered(stem, number) + end;
    if (::link(part.c_str(), path.c_str()) == 0) {
      ::unlink(part.c_str());
      return path;
    }
    if (errno == EEXIST) {
      continue;
    }
    // Some file systems have no hard links.
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) {
      continue;
    }
    return ::rename(part.c_str(), path.c_str()) == 0 ? path : std::string();
  }
}

/// Returns how many files of a recording the folder has.
int files_of(std::string const& folder) {
  int count = 0;
  if (DIR* const entries = ::opendir(folder.c_str())) {
    while (dirent const* const entry = ::readdir(entries)) {
      std::string_view const name = entry->d_name;
      count += name.ends_with(kPartEnd) || name.ends_with(kGzipEnd) || name.ends_with(kPlainEnd);
    }
    ::closedir(entries);
  }
  return count;
}

/// Returns the length of the whole members at the beginning of a file of `size` bytes.
std::uint64_t whole_members(int descriptor, std::uint64_t size) {
  std::uint64_t at = 0;
  while (at + kHeaderBytes <= size) {
    std::array<unsigned char, kHeaderBytes> header{};
    if (::pread(descriptor, header.data(), header.size(), static_cast<off_t>(at)) !=
        static_cast<ssize_t>(header.size())) {
      break;
    }
    bool const ours =
        header[0] == 0x1F && header[1] == 0x8B && header[12] == 'M' && header[13] == 'S';
    std::uint64_t bytes = 0;
    for (unsigned byte = 0; byte < 4; ++byte) {
      bytes |= std::uint64_t{header[16 + byte]} << (8 * byte);
    }
    if (!ours || bytes < kHeaderBytes || at + bytes > size) {
      break;
    }
    at += bytes;
  }
  return at;
}

/// Returns the length of a plain file without its last, perhaps unfinished line.
std::uint64_t whole_lines(int descriptor, std::uint64_t size) {
  constexpr std::uint64_t kStep = 4096;
  std::array<char, kStep + 2> bytes{};
  for (std::uint64_t end = size; end > 0;) {
    std::uint64_t const begin = end > kStep ? end - kStep : 0;
    // Two bytes more, for a separator that lies across the border.
    auto const count = ::pread(
        descriptor, bytes.data(), std::min(size - begin, kStep + 2), static_cast<off_t>(begin));
    if (count <= 0) {
      return 0;
    }
    std::string_view const text(bytes.data(), static_cast<std::size_t>(count));
    // An event is whole if its braces are closed at the end of the file or before the next one.
    if (begin + text.size() == size && text.ends_with("}}")) {
      return size;
    }
    if (auto const found = text.rfind(",\n{"); found != std::string_view::npos) {
      return begin + found;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

bool can_compress() {
#if MSSTREAM_GZIP
  return zlib() != nullptr;
#else
  return false;
#endif
}

std::string gzip_member(std::string_view text) {
  std::string member;
  member.reserve(text.size() / 4 + 256);
  constexpr char kHeader[] = {'\x1f', '\x8b', 8, 4, 0, 0, 0, 0, 0, 3, 8, 0, 'M', 'S', 4, 0};
  member.append(kHeader, sizeof kHeader);
  append_little_endian(member, 0);
  std::uint32_t crc = 0;
  if (!append_compressed(member, text, crc)) {
    append_stored(member, text);
    crc = crc_of(text);
  }
  append_little_endian(member, crc);
  append_little_endian(member, static_cast<std::uint32_t>(text.size()));
  std::string size;
  append_little_endian(size, static_cast<std::uint32_t>(member.size()));
  member.replace(16, 4, size);
  return member;
}

TraceFile::TraceFile(std::string const& folder, std::string const& stem, bool plain)
    : plain_(plain), number_(files_of(folder)) {
  for (int number = 0; descriptor_ < 0; ++number) {
    path_ = numbered(folder + "/" + stem, number);
    descriptor_ = ::open((path_ + kPartEnd).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) {
      fail("create");
      return;
    }
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    fail("lock");
  }
}

TraceFile::~TraceFile() {
  abandon();
}

void TraceFile::abandon() noexcept {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

void TraceFile::fail(char const* action) {
  error_ = std::string("cannot ") + action + " " + path_ + kPartEnd + ": " + std::strerror(errno);
}

void TraceFile::write(std::string_view text) {
  // A member states its size in 32 bits.
  constexpr std::size_t kLargest = std::size_t{1} << 28U;
  while (!text.empty() && error_.empty()) {
    std::string_view const piece = text.substr(0, kLargest);
    text.remove_prefix(piece.size());
    std::string const member = plain_ ? std::string() : gzip_member(piece);
    std::string_view const bytes = plain_ ? piece : std::string_view(member);
    if (!write_all(descriptor_, bytes)) {
      fail("write to");
    }
    bytes_ += bytes.size();
  }
}

void TraceFile::finish(std::string_view footer) {
  write(footer);
  if (error_.empty()) {
    std::string const path = give_name(path_ + kPartEnd, path_, plain_ ? kPlainEnd : kGzipEnd);
    if (path.empty()) {
      fail("rename");
    } else {
      path_ = path;
    }
  }
  abandon();
}

CutFile complete_cut_file(std::string const& part, std::string_view footer) {
  CutFile result;
  auto const failed = [&](char const* action) {
    result.error = std::string("cannot ") + action + " " + part + ": " + std::strerror(errno);
  };
  int const descriptor = ::open(part.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    failed("open");
    if (descriptor >= 0) {
      ::close(descriptor);
    }
    return result;
  }
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    result.still_written = true;
    ::close(descriptor);
    return result;
  }
  std::array<char, kPlainMark.size()> mark{};
  bool const plain =
      ::pread(descriptor, mark.data(), mark.size(), 0) == static_cast<ssize_t>(mark.size()) &&
      std::string_view(mark.data(), mark.size()) == kPlainMark;
  auto const size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t const whole =
      plain ? whole_lines(descriptor, size) : whole_members(descriptor, size);
  result.lost_bytes = size - whole;
  std::string const end = plain ? std::string(footer) : gzip_member(footer);
  std::string const stem = part.substr(0, part.size() - (sizeof kPartEnd - 1));
  if (whole == 0) {
    ::unlink(part.c_str());
    result.error = "the process ended before it wrote anything";
  } else if (::ftruncate(descriptor, static_cast<off_t>(whole)) != 0 ||
             ::lseek(descriptor, 0, SEEK_END) < 0 || !write_all(descriptor, end)) {
    failed("complete");
  } else if (result.path = give_name(part, stem, plain ? kPlainEnd : kGzipEnd);
             result.path.empty()) {
    failed("rename");
  }
  ::close(descriptor);
  return result;
}

}  // namespace msstream::overlap::record
