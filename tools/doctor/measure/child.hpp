// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace msstream::doctor {

/// A process that this one has started, with its standard input and output. The destructor ends it
/// and waits for its end.
class Child {
 public:
  struct Options {
    std::map<std::string, std::string> variables = {};  ///< in place of those of this process
    /// In a process group of its own, so that signals of the terminal do not reach it.
    bool own_group = false;
  };
  /// Starts the program at a path, or, if its name has no slash, in a folder of PATH. Throws
  /// std::system_error if it cannot be started.
  Child(std::vector<std::string> const& command, Options const& options);
  Child(std::vector<std::string> const& command) : Child(command, Options()) {}
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;
  ~Child();

  void write(std::string const& text) const;
  void close_input();
  /// Returns the next line of the output, without its end. Throws std::runtime_error if the output
  /// ends before a line, or no line comes until `deadline`.
  [[nodiscard]] std::string read_line(std::chrono::steady_clock::time_point deadline);
  /// Waits for the end of the process, and returns its exit status; 128 and the signal's number if
  /// one ended it. Kills the process at `deadline`.
  int wait(std::chrono::steady_clock::time_point deadline);

 private:
  std::string name_;
  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string unread_;
};

}  // namespace msstream::doctor
