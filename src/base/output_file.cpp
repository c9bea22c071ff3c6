// SPDX-License-Identifier: Apache-2.0
#include "unfinished_files.hpp"

#include <msstream/base/detail/file_identity.hpp>
#include <msstream/base/error.hpp>
#include <msstream/base/output_file.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace msstream {

namespace {

namespace fs = std::filesystem;

/// The reason why a file cannot be written. `error` is the errno value that adds detail, or 0.
struct Problem {
  std::string reason;
  int error = 0;

  [[nodiscard]] std::string text() const {
    return error == 0 ? reason
                      : fmt::format("{}: {}", reason, std::generic_category().message(error));
  }
};

[[noreturn]] void throw_errno(std::string_view action, fs::path const& path) {
  throw std::system_error(
      errno, std::generic_category(), fmt::format("cannot {} {}", action, path.string()));
}

/// The place that an output goes to: a file that is replaced, or a stream such as standard output
/// or a FIFO.
struct Target {
  fs::path path;
  bool is_replaced = true;
  int descriptor = -1;  ///< the process's own descriptor to write to; -1 if the path is opened
  std::optional<struct stat> earlier;  ///< the status of the file that is replaced
};

/// Returns the descriptor of the process's standard output or error if it refers to the file, or
/// -1.
int standard_stream(struct stat const& file) {
  for (int const descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status {};
    if (::fstat(descriptor, &status) == 0 && status.st_dev == file.st_dev &&
        status.st_ino == file.st_ino) {
      return descriptor;
    }
  }
  return -1;
}

std::string_view name_of_kind(struct stat const& file) {
  return S_ISCHR(file.st_mode)    ? "a device"
         : S_ISBLK(file.st_mode)  ? "a block device"
         : S_ISFIFO(file.st_mode) ? "a FIFO"
         : S_ISSOCK(file.st_mode) ? "a socket"
                                  : "the standard output";
}

Target target_of(fs::path const& path, OutputFile::Kind kind) {
  if (!path.has_filename() || path.filename() == "." || path.filename() == "..") {
    throw Problem{"expected the name of a file"};
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    int const error = errno;
    if (error == ENOENT) {
      try {
        auto const end = detail::end_of_links(path);
        auto const folder = detail::folder_of(end);
        if (::stat(folder.c_str(), &status) != 0) {
          int const missing = errno;
          throw Problem{fmt::format("there is no folder {}", folder.string()), missing};
        }
        return {end, true, -1, std::nullopt};
      } catch (std::system_error const& failure) {
        throw Problem{"cannot follow the link", failure.code().value()};
      }
    }
    throw Problem{"cannot look at it", error};
  }
  if (S_ISDIR(status.st_mode)) {
    throw Problem{"is a folder; expected a file"};
  }
  int const own = standard_stream(status);
  if (S_ISREG(status.st_mode) && own < 0) {
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
      throw Problem{"cannot be written", errno};
    }
    std::error_code error;
    auto canonical = fs::canonical(path, error);
    if (error) {
      throw Problem{"cannot follow the path", error.value()};
    }
    return {std::move(canonical), true, -1, status};
  }
  if (kind == OutputFile::Kind::regular || S_ISBLK(status.st_mode)) {
    throw Problem{fmt::format("is {}; expected a regular file", name_of_kind(status))};
  }
  return {path, false, own, std::nullopt};
}

/// A guard that blocks SIGPIPE for the calling thread, and at its end discards a SIGPIPE that was
/// raised meanwhile.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending{};
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  PipeSignalHeld(PipeSignalHeld const&) = delete;
  PipeSignalHeld& operator=(PipeSignalHeld const&) = delete;
  ~PipeSignalHeld() {
    int const error = errno;
    timespec const at_once{};
    while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

int open_stream(Target const& target, OutputFile::Kind kind) {
  if (target.descriptor >= 0) {
    return ::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0);
  }
  int const at_once = kind == OutputFile::Kind::streamed_at_once ? O_NONBLOCK : 0;
  int descriptor = -1;
  do {
    descriptor = ::open(target.path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | at_once);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor >= 0 && at_once != 0) {
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  }
  return descriptor;
}

constexpr std::string_view kTemporaryEnd = ".tmp";
constexpr std::size_t kDigits = 16;

/// Returns the prefix that all temporary files of `target` have in their names.
std::string temporary_prefix(fs::path const& target) {
  constexpr std::size_t longest_name = 255;
  auto const name = target.filename().string();
  return fmt::format(".{}.", name.substr(0, longest_name - 2 - kDigits - kTemporaryEnd.size()));
}

std::string random_digits() {
  unsigned char bytes[kDigits / 2] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    throw Problem{"cannot get random numbers", errno};
  }
  std::string digits;
  for (unsigned const byte : bytes) {
    digits += {"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
  }
  return digits;
}

/// Removes the temporary files of `target` whose writers have died. A living writer holds a lock on
/// its temporary file, which is kept.
void remove_stale(fs::path const& target) {
  auto const prefix = temporary_prefix(target);
  std::unique_ptr<DIR, int (*)(DIR*)> const folder(::opendir(detail::folder_of(target).c_str()),
                                                   ::closedir);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread reads this stream of entries
  while (auto const* entry = folder ? ::readdir(folder.get()) : nullptr) {
    std::string_view const name = entry->d_name;
    bool const is_ours =
        name.size() == prefix.size() + kDigits + kTemporaryEnd.size() && name.starts_with(prefix) &&
        name.ends_with(kTemporaryEnd) &&
        name.find_first_not_of("0123456789abcdef", prefix.size()) == prefix.size() + kDigits;
    if (!is_ours) {
      continue;
    }
    int const inside = ::dirfd(folder.get());
    int const descriptor =
        ::openat(inside, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status {};
    if (descriptor >= 0 && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
        ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      ::unlinkat(inside, entry->d_name, 0);
    }
    if (descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

/// A temporary file that is open for writing and locked.
struct Temporary {
  fs::path path;
  int descriptor;
  int slot;
};

Temporary create_beside(Target const& target) {
  remove_stale(target.path);
  auto const folder = detail::folder_of(target.path);
  constexpr mode_t anyone = 0666;
  mode_t const mode = target.earlier ? (target.earlier->st_mode & anyone) | S_IWUSR : anyone;
  while (true) {
    auto const path =
        folder / (temporary_prefix(target.path) + random_digits() + std::string(kTemporaryEnd));
    int const slot = detail::UnfinishedFiles::add(path);
    int const descriptor =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (descriptor >= 0) {
      // Another writer that searched for stale files may have held the lock and removed the new
      // file; then a file with another name is made.
      struct stat status {};
      ::flock(descriptor, LOCK_EX);
      if (::fstat(descriptor, &status) != 0 || status.st_nlink > 0) {
        return {path, descriptor, slot};
      }
      ::close(descriptor);
      errno = EEXIST;
    }
    int const error = errno;
    detail::UnfinishedFiles::remove(slot);
    if (error != EEXIST) {
      throw Problem{fmt::format("cannot create a file in {}", folder.string()), error};
    }
  }
}

/// Sets the new file's owner and permissions to the old file's, as far as the process may set them.
void keep_attributes(int descriptor, struct stat const& earlier) {
  if (earlier.st_uid != ::geteuid() || earlier.st_gid != ::getegid()) {
    static_cast<void>(!::fchown(descriptor, earlier.st_uid, earlier.st_gid));
  }
  static_cast<void>(!::fchmod(descriptor, earlier.st_mode & 07777U));
}

void sync_folder(fs::path const& folder) {
  int const descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EACCES) {
      return;  // a folder that may be written but not read cannot be flushed
    }
    throw_errno("open folder", folder);
  }
  int const status = ::fsync(descriptor);
  int const error = errno;
  ::close(descriptor);
  // Some file systems cannot flush a folder and report EINVAL; they order renames themselves.
  if (status != 0 && error != EINVAL) {
    errno = error;
    throw_errno("flush folder", folder);
  }
}

}  // namespace

OutputFile::OutputFile(fs::path const& path, OutputFile::Kind kind, OutputFile::Observer observer)
    : observer_(std::move(observer)) {
  try {
    auto target = target_of(path, kind);
    target_ = target.path;
    if (!target.is_replaced) {
      descriptor_ = open_stream(target, kind);
      if (descriptor_ < 0) {
        throw errno == ENXIO ? Problem{"nobody reads the FIFO"}
                             : Problem{"cannot be opened", errno};
      }
      return;
    }
    auto const temporary = create_beside(target);
    temporary_ = temporary.path;
    descriptor_ = temporary.descriptor;
    slot_ = temporary.slot;
    lock_ = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    if (target.earlier) {
      keep_attributes(descriptor_, *target.earlier);
    }
  } catch (Problem const& problem) {
    auto const message = fmt::format("cannot write {}: {}", path.string(), problem.reason);
    if (problem.error != 0) {
      throw std::system_error(problem.error, std::generic_category(), message);
    }
    throw std::invalid_argument(message);
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (is_replaced() && ::getpid() == owner_) {  // not in a child of fork()
    ::unlink(temporary_.c_str());
  }
  detail::UnfinishedFiles::remove(slot_);
  if (lock_ >= 0) {
    ::close(lock_);
  }
}

void OutputFile::write(void const* bytes, std::size_t count) {
  std::optional<PipeSignalHeld> const held =
      is_replaced() ? std::nullopt : std::optional<PipeSignalHeld>(std::in_place);
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

void OutputFile::commit() {
  observe(OutputFile::SavePoint::written);
  if (is_replaced() && ::fsync(descriptor_) != 0) {
    throw_errno("flush", target_);
  }
  // The result of close() is checked because a network file system may report a full disk only
  // here.
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    throw_errno("close", target_);
  }
  observe(OutputFile::SavePoint::synced);
  if (is_replaced()) {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      throw_errno("rename to", target_);
    }
    temporary_.clear();
    detail::UnfinishedFiles::remove(std::exchange(slot_, -1));
    observe(OutputFile::SavePoint::renamed);
    sync_folder(detail::folder_of(target_));
  }
}

void OutputFile::observe(OutputFile::SavePoint point) const {
  if (observer_) {
    observer_(point);
  }
}

void write_file(fs::path const& path, std::string_view content, OutputFile::Kind kind) {
  OutputFile file(path, kind);
  file.write(content);
  file.commit();
}

std::string output_problem(fs::path const& path, OutputFile::Kind kind) {
  try {
    auto const target = target_of(path, kind);
    if (target.is_replaced) {
      auto const temporary = create_beside(target);
      ::unlink(temporary.path.c_str());
      detail::UnfinishedFiles::remove(temporary.slot);
      ::close(temporary.descriptor);
    } else if (target.descriptor < 0 &&
               ::faccessat(AT_FDCWD, target.path.c_str(), W_OK, AT_EACCESS) != 0) {
      throw Problem{"cannot be written", errno};
    }
    return {};
  } catch (Problem const& problem) {
    return problem.text();
  }
}

}  // namespace msstream
