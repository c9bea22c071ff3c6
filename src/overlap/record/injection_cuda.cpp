// SPDX-License-Identifier: Apache-2.0
// What other code calls in this library: the CUDA driver, and programs as they end.
#include "overlap/record/recorder_cuda.hpp"
#include "overlap/record/signals.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace msstream::overlap::record {

namespace {

constexpr int kExitLimitMs = 30'000;
constexpr int kSignalLimitMs = 1'000;

void on_signal(int signal) {
  static std::atomic<int> calls{0};
  Recorder* const recorder = Recorder::current();
  // A second signal of an impatient user ends the process at once, as does one in a child of
  // fork().
  if (recorder == nullptr || recorder->is_done() || calls.fetch_add(1) >= 3) {
    raise_by_default(signal);
    return;
  }
  recorder->ask_to_finish(signal);
  // If this thread was interrupted within CUPTI, the end has to wait for it: then the handler
  // returns, and the recorder's thread ends the process.
  if (recorder->wait_until_done(kSignalLimitMs)) {
    raise_by_default(signal);
  }
}

}  // namespace

}  // namespace msstream::overlap::record

using msstream::overlap::record::Recorder;

extern "C" {

/// Called by the CUDA driver, which loads the library that CUDA_INJECTION64_PATH names, as it is
/// initialised.
__attribute__((visibility("default"))) int InitializeInjection() {
  Recorder::start();
  if (Recorder::current() != nullptr) {
    std::atexit([] { Recorder::finish(Recorder::kExit, msstream::overlap::record::kExitLimitMs); });
    at_quick_exit(
        [] { Recorder::finish(Recorder::kQuickExit, msstream::overlap::record::kExitLimitMs); });
    msstream::overlap::record::watch_signals(msstream::overlap::record::on_signal);
  }
  return 1;
}

/// Stands before the C library's function if this library is preloaded: _exit() runs no handlers.
__attribute__((visibility("default"), noreturn)) void _exit(int status) {
  Recorder::finish(Recorder::kQuickExit, msstream::overlap::record::kExitLimitMs);
  for (;;) {
    syscall(SYS_exit_group, status);
  }
}

__attribute__((visibility("default"), noreturn)) void _Exit(int status) noexcept {
  _exit(status);
}
}
