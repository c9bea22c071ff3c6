// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>
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
    operation_ = operation;
  }
  ~InsideWork() { operation_ = nullptr; }
  InsideWork(InsideWork const&) = delete;
  InsideWork& operator=(InsideWork const&) = delete;

  /// Throws std::logic_error that names `what` and the operation when the calling thread is inside.
  static void refuse(std::string_view what) {
    if (operation_ != nullptr) [[unlikely]] {
      throw std::logic_error(
          text(what, " called from inside the work of the operation '", place(), "'"));
    }
  }
  /// The operation whose work the calling thread is inside, else its name scopes; empty where there
  /// is neither. A launch thread does not know the scopes of the thread that issued.
  [[nodiscard]] static std::string place() {
    return operation_ != nullptr ? NameScope::qualify(operation_)
                                 : std::string(NameScope::current());
  }

 private:
  static inline thread_local char const* operation_ = nullptr;
};

}  // namespace msstream
