// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>
#include <msstream/runtime/runtime_thread.hpp>
#include <msstream/trace/name_scope.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream {

/// While the guard lives, the calling thread is inside an operation's work, and may neither issue
/// another operation nor ask a stream for an event: either could need the operation that is not
/// launched before its work returns.
class InsideWork {
 public:
  /// `operation` outlives the guard.
  [[nodiscard("without a name the guard goes at once")]] explicit InsideWork(
      char const* operation) noexcept {
    RuntimeThread::launching_ = operation;
  }
  ~InsideWork() { RuntimeThread::launching_ = nullptr; }
  InsideWork(InsideWork const&) = delete;
  InsideWork& operator=(InsideWork const&) = delete;

  /// Throws std::logic_error that names `what` and the operation when the calling thread is inside.
  static void refuse(std::string_view what) {
    if (RuntimeThread::launching() != nullptr) [[unlikely]] {
      throw std::logic_error(
          text(what, " called from inside the work of the operation '", place(), "'"));
    }
  }
  /// The same for a wait of the host, which work that runs on a stream, such as HostStream::run()
  /// or a host function of CUDA, may not do either: the stream would wait for itself.
  static void refuse_wait(std::string_view what) {
    refuse(what);
    if (RuntimeThread::is_current()) [[unlikely]] {
      throw std::logic_error(text(what,
                                  ": the host waits inside work that runs on a stream, which may "
                                  "have to wait for that work itself; wait on a thread of the "
                                  "program, after the work was issued"));
    }
  }
  /// The operation whose work the calling thread is inside, else its name scopes; empty where there
  /// is neither. A launch thread does not know the scopes of the thread that issued.
  [[nodiscard]] static std::string place() {
    auto const* const operation = RuntimeThread::launching();
    return operation != nullptr ? NameScope::qualify(operation) : std::string(NameScope::current());
  }
};

}  // namespace msstream
