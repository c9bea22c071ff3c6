// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::testing {

using Words = std::vector<std::string>;

[[nodiscard]] inline Words operator+(Words left, Words const& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// The exit status of a program, and what the program wrote to standard output and standard error.
struct Ended {
  int status = -1;  ///< of exit(); -1 if a signal ended the program
  int signal = 0;
  std::string out;
  std::string err;
};

struct RunOptions {
  Words environment = {};  ///< `NAME=value`, added to this process's variables without MSSTREAM_*
  /// The largest size in bytes to which the program can write a file.
  std::optional<rlim_t> most_file_bytes = {};
  /// True if a write beyond `most_file_bytes` kills the program; otherwise the write fails.
  bool killed_at_limit = false;
};

namespace detail {

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe2");
    }
  }
  Pipe(Pipe const&) = delete;
  Pipe& operator=(Pipe const&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t end) {
    if (ends[end] >= 0) {
      ::close(std::exchange(ends[end], -1));
    }
  }
};

/// Reads both pipes to their ends, whichever has data first: a full pipe would stop the program.
inline void read_both(Pipe& out, Pipe& err, Ended& ended) {
  std::array<pollfd, 2> waiting{{{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}}};
  std::array<std::string*, 2> const texts{&ended.out, &ended.err};
  std::array<char, 4096> buffer{};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    ::poll(waiting.data(), waiting.size(), -1);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd >= 0 && waiting[i].revents != 0) {
        auto const count = ::read(waiting[i].fd, buffer.data(), buffer.size());
        if (count > 0) {
          texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
        } else {
          waiting[i].fd = -1;
        }
      }
    }
  }
}

inline std::vector<char*> pointers_to(Words& words) {
  std::vector<char*> out;
  for (auto& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

}  // namespace detail

/// Runs a program to its end and returns its exit status and output.
[[nodiscard]] inline Ended run_program(std::string const& program,
                                       Words const& arguments,
                                       RunOptions const& options = {}) {
  Words words = Words{program} + arguments;
  Words variables = options.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("MSSTREAM_")) {
      variables.emplace_back(*variable);
    }
  }
  auto const argv = detail::pointers_to(words);
  auto const envp = detail::pointers_to(variables);
  detail::Pipe out;
  detail::Pipe err;
  pid_t const child = ::fork();
  if (child == 0) {  // only calls that are safe between fork and exec
    ::dup2(out.ends[1], STDOUT_FILENO);
    ::dup2(err.ends[1], STDERR_FILENO);
    if (options.most_file_bytes) {
      rlimit const limit{*options.most_file_bytes, *options.most_file_bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      rlimit const no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      ::signal(SIGXFSZ, options.killed_at_limit ? SIG_DFL : SIG_IGN);
    }
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  out.close_end(1);
  err.close_end(1);
  Ended ended;
  detail::read_both(out, err, ended);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    ended.status = WEXITSTATUS(status);
  } else {
    ended.signal = WTERMSIG(status);
  }
  return ended;
}

}  // namespace msstream::testing
