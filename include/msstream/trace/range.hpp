// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/thread_guards.hpp>
#include <msstream/trace/detail/stack_range.hpp>

#include <cstdint>
#include <source_location>
#include <string>
#include <utility>

namespace msstream::trace {

/// An NVTX range in the domain "msstream" on the calling thread, for the program's own parts of a
/// timeline. `category` identifies the stream group.
///
/// The range must be destroyed on the thread that made it. If another thread destroys it, the range
/// stays open: the destructor writes both threads and the location where the range was opened to
/// the standard error stream, and the next issue() of the thread that made the range ends it and
/// throws std::logic_error.
class Range {
 public:
  /// Opens a range with this name, until the guard is destroyed, on the same thread.
  [[nodiscard("without a name the guard goes at once")]] explicit Range(
      std::string name,
      std::uint32_t category = 0,
      std::source_location opened_at = std::source_location::current())
      : name_(std::move(name)), entry_(Guards::open(opened_at, name_.c_str(), category)) {}
  ~Range() { Guards::close(entry_, "Range", name_); }
  Range(Range const&) = delete;
  Range& operator=(Range const&) = delete;

 private:
  using Guards = detail::ThreadGuards<detail::StackRange>;

  std::string name_;
  Guards::Entry* entry_;
};

}  // namespace msstream::trace
