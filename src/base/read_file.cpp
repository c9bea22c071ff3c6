// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.hpp"

#include <msstream/base/error.hpp>

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
  require(file.number >= 0, name, ": cannot open: ", reason());
  struct stat status {};
  require(::fstat(file.number, &status) == 0, name, ": cannot look at it: ", reason());
  require(!S_ISDIR(status.st_mode), name, ": expected a file, found a folder");
  require(!S_ISREG(status.st_mode) || static_cast<std::uintmax_t>(status.st_size) <= most_bytes,
          name,
          ": has ",
          static_cast<std::int64_t>(status.st_size),
          " bytes; expected at most ",
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
    require(count >= 0 || errno == EINTR, name, ": cannot read: ", reason());
    filled += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    require(filled <= most_bytes, name, ": goes on after ", most_bytes, " bytes; expected no more");
    if (count == 0) {
      content.resize(filled);
      return content;
    }
  }
}

}  // namespace msstream::detail
