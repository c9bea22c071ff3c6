// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/support/atomic_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace msstream::support {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_errno(std::string_view action, fs::path const& path) {
  throw std::system_error(
      errno, std::generic_category(), text("cannot ", action, " ", path.string()));
}

fs::path resolved(fs::path const& target) {
  require(target.has_filename(), "cannot save to '", target.string(), "': expected a file name");
  std::error_code ignored;
  auto const status = fs::status(target, ignored);
  if (!fs::exists(status)) {
    return target;
  }
  require(fs::is_regular_file(status),
          "cannot save to '",
          target.string(),
          "': it exists and is not a regular file");
  return fs::canonical(target);
}

fs::path folder_of(fs::path const& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

int create_beside(fs::path const& target, fs::path& temporary) {
  static std::atomic<unsigned> number{0};
  while (true) {
    auto const name =
        text(".", target.filename().string(), ".", ::getpid(), "-", number.fetch_add(1), ".tmp");
    temporary = folder_of(target) / name;
    int const descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      return descriptor;
    }
    if (errno != EEXIST) {  // left by a killed process that had our number: take the next name
      throw_errno("create", temporary);
    }
  }
}

void sync_folder(fs::path const& folder) {
  int const descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    throw_errno("open folder", folder);
  }
  int const status = ::fsync(descriptor);
  int const error = errno;
  ::close(descriptor);
  // Some file systems cannot flush a folder and say so by EINVAL; they order renames themselves.
  if (status != 0 && error != EINVAL) {
    errno = error;
    throw_errno("flush folder", folder);
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path const& target, SaveObserver observer)
    : target_(resolved(target)),
      observer_(std::move(observer)),
      descriptor_(create_beside(target_, temporary_)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!committed_) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(void const* bytes, std::size_t count) {
  auto const* next = static_cast<char const*>(bytes);
  while (count > 0) {
    auto const written = ::write(descriptor_, next, count);
    if (written < 0 && errno != EINTR) {
      throw_errno("write", target_);
    }
    next += written > 0 ? written : 0;
    count -= written > 0 ? static_cast<std::size_t>(written) : 0;
  }
}

void AtomicFile::commit() {
  observe(SavePoint::written);
  if (::fsync(descriptor_) != 0) {
    throw_errno("flush", target_);
  }
  // Checked: a network file system may report a full disk only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    throw_errno("close", target_);
  }
  observe(SavePoint::synced);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw_errno("rename to", target_);
  }
  committed_ = true;
  observe(SavePoint::renamed);
  sync_folder(folder_of(target_));
}

void AtomicFile::observe(SavePoint point) const {
  if (observer_) {
    observer_(point);
  }
}

}  // namespace msstream::support
