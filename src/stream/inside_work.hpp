// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/detail/runtime_thread.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::detail {

/// A guard that marks the calling thread as inside an operation's work. The thread may then neither
/// issue another operation nor record an event on a stream: both may have to wait until the current
/// operation is launched, which is only when its work returns.
class InsideWork {
 public:
  /// Stores a pointer to the operation's name, which must outlive the guard.
  [[nodiscard("without a name the guard goes at once")]] explicit InsideWork(
      char const* operation) noexcept {
    RuntimeThread::launching_ = operation;
  }
  ~InsideWork() { RuntimeThread::launching_ = nullptr; }
  InsideWork(InsideWork const&) = delete;
  InsideWork& operator=(InsideWork const&) = delete;

  /// Throws a std::logic_error with `what` and the operation's name if the calling thread is inside
  /// an operation's work.
  static void refuse(std::string_view what) {
    if (RuntimeThread::launching() != nullptr) [[unlikely]] {
      throw std::logic_error(
          fmt::format("{} called from inside the work of the operation '{}'", what, place()));
    }
  }
  /// Does not measure the text, as long as there is nothing to refuse.
  static void refuse(char const* what) {
    if (RuntimeThread::launching() != nullptr) [[unlikely]] {
      refuse(std::string_view(what));
    }
  }
  /// Throws a std::logic_error if the host may not wait on the calling thread: inside an
  /// operation's work, and on a thread that runs the work of a stream (HostStream::run(), or a host
  /// function of CUDA), because the stream would wait for itself.
  static void refuse_wait(std::string_view what) {
    refuse(what);
    if (RuntimeThread::is_current()) [[unlikely]] {
      throw std::logic_error(fmt::format(
          "{}: the host waits inside work that runs on a stream, which may have to wait for that "
          "work itself; wait on a thread of the program, after the work was issued",
          what));
    }
  }
  /// Returns the name of the operation whose work the calling thread is inside. Outside all work,
  /// returns the thread's name scopes, or an empty string if there are none. A launch thread does
  /// not know the scopes of the thread that issued the operation.
  [[nodiscard]] static std::string place() {
    auto const* const operation = RuntimeThread::launching();
    return operation != nullptr ? NameScope::qualify(operation) : std::string(NameScope::current());
  }
};

}  // namespace msstream::detail
