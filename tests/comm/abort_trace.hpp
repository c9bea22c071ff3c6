// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace msstream::testing {

/// Lets abort() write the calls of its thread to the standard error, as addresses that addr2line
/// turns into names. glibc aborts when it finds its heap damaged, with a message that does not tell
/// where, and threads as ranks may do so in one of a thousand runs.
class AbortTrace {
 public:
  AbortTrace() {
    void* first = nullptr;
    static_cast<void>(::backtrace(&first, 1));  // loads what a handler must not load
    static_cast<void>(std::signal(SIGABRT, &write_calls));
  }

 private:
  /// abort() ends the program when its handler has returned.
  static void write_calls(int /*signal*/) {
    std::array<void*, 64> calls{};
    int const count = ::backtrace(calls.data(), static_cast<int>(calls.size()));
    ::backtrace_symbols_fd(calls.data(), count, STDERR_FILENO);
  }
};

inline AbortTrace const abort_trace;

}  // namespace msstream::testing
