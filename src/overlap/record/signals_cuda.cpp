// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/signals.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>

namespace msstream::overlap::record {

namespace {

using Handler = void (*)(int);
using ActionFunction = int (*)(int, struct sigaction const*, struct sigaction*);

constexpr int kWatched[] = {
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGXCPU};

std::atomic<Handler> watcher{nullptr};

bool is_watched(int signal) {
  return std::find(std::begin(kWatched), std::end(kWatched), signal) != std::end(kWatched);
}

/// Returns the C library's function, not the one below.
ActionFunction system_action() {
  static auto const found = reinterpret_cast<ActionFunction>(dlsym(RTLD_NEXT, "sigaction"));
  return found;
}

struct sigaction action_of_watcher() {
  struct sigaction action {};
  action.sa_handler = watcher;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return action;
}

/// Like sigaction(), but SIG_DFL of a watched signal stands for the watcher, so that a program
/// which restores a signal and raises it, as Python does after an interrupt, is noticed.
int change_action(int signal, struct sigaction const* wanted, struct sigaction* before) {
  if (system_action() == nullptr) {
    return -1;
  }
  Handler const handler = watcher;
  struct sigaction changed {};
  if (handler != nullptr && wanted != nullptr && is_watched(signal) &&
      (wanted->sa_flags & SA_SIGINFO) == 0 && wanted->sa_handler == SIG_DFL) {
    changed = action_of_watcher();
    wanted = &changed;
  }
  int const result = system_action()(signal, wanted, before);
  if (result == 0 && before != nullptr && handler != nullptr && before->sa_handler == handler) {
    *before = {};
    before->sa_handler = SIG_DFL;
  }
  return result;
}

}  // namespace

void watch_signals(Handler on_signal) {
  watcher = on_signal;
  for (int const signal : kWatched) {
    struct sigaction now {};
    struct sigaction const wanted = action_of_watcher();
    if (system_action() != nullptr && system_action()(signal, nullptr, &now) == 0 &&
        (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) {
      system_action()(signal, &wanted, nullptr);
    }
  }
}

void restore_default(int signal) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigemptyset(&action.sa_mask);
  if (system_action() != nullptr) {
    system_action()(signal, &action, nullptr);
  }
}

void raise_by_default(int signal) noexcept {
  restore_default(signal);
  ::kill(::getpid(), signal);
}

}  // namespace msstream::overlap::record

extern "C" {

__attribute__((visibility("default"))) int sigaction(int signal,
                                                     struct sigaction const* wanted,
                                                     struct sigaction* before) noexcept {
  return msstream::overlap::record::change_action(signal, wanted, before);
}

__attribute__((visibility("default"))) sighandler_t signal(int number,
                                                           sighandler_t handler) noexcept {
  struct sigaction wanted {};
  struct sigaction before {};
  wanted.sa_handler = handler;
  wanted.sa_flags = SA_RESTART;
  sigemptyset(&wanted.sa_mask);
  return msstream::overlap::record::change_action(number, &wanted, &before) == 0 ? before.sa_handler
                                                                                 : SIG_ERR;
}
}
