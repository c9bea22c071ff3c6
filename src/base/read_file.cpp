// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.hpp"

#include <msstream/base/detail/require.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace msstream::detail {

namespace {

/// A file descriptor that is closed on destruction.
struct ReadDescriptor {
  int number;
  explicit ReadDescriptor(int opened) : number(opened) {}
  ReadDescriptor(ReadDescriptor const&) = delete;
  ReadDescriptor& operator=(ReadDescriptor const&) = delete;
  ~ReadDescriptor() {
    if (number >= 0) {
      ::close(number);
    }
  }
};

}  // namespace

std::string read_file(std::filesystem::path const& path, std::size_t most_bytes) {
  auto const name = path.string();
  auto const reason = [] { return std::generic_category().message(errno); };
  ReadDescriptor const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  require(file.number >= 0, "{}: cannot open: {}", name, reason());
  struct stat status {};
  require(::fstat(file.number, &status) == 0, "{}: cannot look at it: {}", name, reason());
  require(!S_ISDIR(status.st_mode), "{}: expected a file, found a folder", name);
  require(!S_ISREG(status.st_mode) || static_cast<std::uintmax_t>(status.st_size) <= most_bytes,
          "{}: has {} bytes; expected at most {}",
          name,
          static_cast<std::int64_t>(status.st_size),
          most_bytes);
  std::string content;
  std::size_t filled = 0;
  while (true) {
    constexpr std::size_t least = 4096;
    auto const expected = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0)) + 1;
    if (filled == content.size()) {
      content.resize(std::min(std::max({2 * filled, least, expected}), most_bytes + 1));
    }
    auto const count = ::read(file.number, content.data() + filled, content.size() - filled);
    require(count >= 0 || errno == EINTR, "{}: cannot read: {}", name, reason());
    filled += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    require(filled <= most_bytes, "{}: goes on after {} bytes; expected no more", name, most_bytes);
    if (count == 0) {
      content.resize(filled);
      return content;
    }
  }
}

}  // namespace msstream::detail
