// SPDX-License-Identifier: Apache-2.0
#include "cli/process_setup.hpp"

#include <msstream/base/output_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace msstream::cli {

namespace {

void remove_files_and_end(int signal) {
  remove_unfinished_outputs();
  // Ends the process when this handler returns, since SA_RESETHAND has restored the signal's
  // default action.
  ::raise(signal);
}

/// Sets a handler for a signal, unless its action was changed before, as nohup does.
void handle_where_default(int signal, void (*handler)(int), int flags) {
  struct sigaction before {};
  if (::sigaction(signal, nullptr, &before) == 0 && (before.sa_flags & SA_SIGINFO) == 0 &&
      before.sa_handler == SIG_DFL) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void prepare_process() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      // Occupies the number of a closed standard stream: open() takes the lowest free number, which
      // is this one. The mode is the opposite of the stream's, so that using the stream still
      // fails.
      static_cast<void>(!::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
  }
  for (int const signal : {SIGINT, SIGTERM, SIGHUP}) {
    handle_where_default(signal, remove_files_and_end, SA_RESETHAND);
  }
  handle_where_default(SIGPIPE, SIG_IGN, 0);
}

}  // namespace msstream::cli
