// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"
#include "report/event_record.hpp"

#include <msstream/base/detail/log_line.hpp>
#include <msstream/base/detail/require.hpp>
#include <msstream/report/tensorboard.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

namespace msstream::report {

namespace {

constexpr std::size_t kLeastBuffer = 1024;

double system_seconds() {
  auto const now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data()
                                                                             : "localhost";
}

void require_tag(std::string_view tag) {
  require(!tag.empty() && detail::is_utf8(tag),
          "TensorBoardWriter: the tag '{}'; expected a name in UTF-8",
          tag);
}

}  // namespace

class TensorBoardWriter::State {
 public:
  State(std::filesystem::path const& folder, Options options)
      : options_(std::move(options)), now_(options_.now ? options_.now : system_seconds) {
    require(options_.buffer_bytes >= kLeastBuffer,
            "TensorBoardWriter: buffer_bytes is {}; expected at least {}",
            options_.buffer_bytes,
            kLeastBuffer);
    require(options_.flush_after.count() >= 0,
            "TensorBoardWriter: flush_after is {} ms; expected at least 0",
            options_.flush_after.count());
    std::filesystem::create_directories(folder);
    double const time = now_();
    create(folder, time);
    flushed_at_ = time;
    detail::append_record(pending_, detail::version_event(time));
    try {
      flush();
    } catch (...) {
      ::close(descriptor_);
      ::unlink(path_.c_str());
      throw;
    }
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    // In a child of fork(), the events belong to the parent.
    if (::getpid() == owner_) {
      try {
        flush();
      } catch (std::exception const& error) {
        detail::log_line(fmt::format("msstream: {}", error.what()));
      }
    }
    ::close(descriptor_);
  }

  /// Adds the event that `make(time)` returns, unless it is empty.
  template <class Make>
  void add(Make const& make) {
    std::lock_guard const guard(mutex_);
    double const time = now_();
    std::string const event = make(time);
    if (event.empty()) {
      return;
    }
    std::string record;
    detail::append_record(record, event);
    bool const is_late =
        time - flushed_at_ >= std::chrono::duration<double>(options_.flush_after).count();
    if (is_late || pending_.size() + record.size() > options_.buffer_bytes) {
      write_pending();
      flushed_at_ = time;
    }
    pending_ += record;
    if (record.size() > options_.buffer_bytes) {
      try {
        write_pending();
      } catch (...) {
        pending_.clear();
        throw;
      }
    }
  }

  void flush() {
    std::lock_guard const guard(mutex_);
    write_pending();
    flushed_at_ = now_();
  }

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  void create(std::filesystem::path const& folder, double time) {
    auto const host = host_name();
    for (int number = 0;; ++number) {
      path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                                   static_cast<std::int64_t>(time),
                                   host,
                                   owner_,
                                   number);
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
      if (descriptor_ >= 0) {
        return;
      }
      if (errno != EEXIST) {
        throw std::system_error(
            errno, std::generic_category(), fmt::format("cannot create {}", path_.string()));
      }
    }
  }

  /// Appends the pending events to the file. If that fails, cuts off what was written of them.
  void write_pending() {
    if (has_rest_) {
      cut_off_rest();
    }
    std::string_view rest = pending_;
    while (!rest.empty()) {
      auto const written = ::write(descriptor_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        auto const failure = failure_of("write", written < 0 ? errno : EIO);
        has_rest_ = true;
        cut_off_rest();
        throw failure;
      }
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    complete_ += pending_.size();
    pending_.clear();
  }

  void cut_off_rest() {
    if (::ftruncate(descriptor_, static_cast<off_t>(complete_)) != 0) {
      throw failure_of("shorten", errno);
    }
    has_rest_ = false;
  }
  [[nodiscard]] std::system_error failure_of(char const* action, int error) const {
    return {error, std::generic_category(), fmt::format("cannot {} {}", action, path_.string())};
  }

  Options const options_;
  std::function<double()> const now_;
  pid_t const owner_ = ::getpid();
  std::filesystem::path path_;
  int descriptor_ = -1;

  std::mutex mutex_;
  std::string pending_;         ///< whole records
  std::uint64_t complete_ = 0;  ///< the length of the whole records in the file
  bool has_rest_ = false;       ///< whether the file may have a part of a record after them
  double flushed_at_ = 0;
};

TensorBoardWriter::TensorBoardWriter(std::filesystem::path const& folder)
    : TensorBoardWriter(folder, Options()) {}

TensorBoardWriter::TensorBoardWriter(std::filesystem::path const& folder, Options const& options)
    : state_(std::make_unique<State>(folder, options)) {}

TensorBoardWriter::~TensorBoardWriter() = default;

void TensorBoardWriter::scalar(std::string_view tag, double value, std::int64_t step) {
  require_tag(tag);
  state_->add([&](double time) { return detail::scalar_event(time, step, tag, value); });
}

void TensorBoardWriter::text(std::string_view tag, std::string_view text, std::int64_t step) {
  require_tag(tag);
  require(detail::is_utf8(text), "TensorBoardWriter: the text of '{}' is not UTF-8", tag);
  state_->add([&](double time) { return detail::text_event(time, step, tag, text); });
}

void TensorBoardWriter::histogram(std::string_view tag,
                                  std::span<float const> values,
                                  std::int64_t step) {
  require_tag(tag);
  state_->add([&](double time) { return detail::histogram_event(time, step, tag, values); });
}

void TensorBoardWriter::flush() {
  state_->flush();
}

std::filesystem::path const& TensorBoardWriter::path() const noexcept {
  return state_->path();
}

}  // namespace msstream::report
