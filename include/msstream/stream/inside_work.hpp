// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <stdexcept>
#include <string_view>

namespace msstream {

/// While the guard lives, the calling thread is inside an operation's work, and may neither issue
/// another operation nor ask a stream for an event: either could need the operation that is not
/// launched before its work returns.
class InsideWork {
 public:
  InsideWork() noexcept { active_ = true; }
  ~InsideWork() { active_ = false; }
  InsideWork(InsideWork const&) = delete;
  InsideWork& operator=(InsideWork const&) = delete;

  /// Throws std::logic_error that names `what` when the calling thread is inside.
  static void refuse(std::string_view what) {
    if (active_) [[unlikely]] {
      throw std::logic_error(text(what, " called from inside the work of an operation"));
    }
  }

 private:
  static inline thread_local bool active_ = false;
};

}  // namespace msstream
