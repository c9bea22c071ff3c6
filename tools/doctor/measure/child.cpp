// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/child.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace msstream::doctor {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(int code, std::string const& what) {
  throw std::system_error(code, std::generic_category(), what);
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail(errno, "pipe2");
  }
  return ends;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

int ms_until(Clock::time_point deadline) {
  auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) + 1 : 0;
}

int status_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Child::Child(std::vector<std::string> const& command, Options const& options)
    : name_(command.at(0)) {
  auto words = command;
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string_view const entry = *variable;
    if (!options.variables.contains(std::string(entry.substr(0, entry.find('='))))) {
      variables.emplace_back(entry);
    }
  }
  for (auto const& [name, value] : options.variables) {
    variables.push_back(name + "=" + value);
  }
  auto const argv = pointers_to(words);
  auto const envp = pointers_to(variables);
  auto const input = make_pipe();
  auto const output = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  if (options.own_group) {
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes, 0);
  }
  int const code =
      ::posix_spawnp(&process_, argv[0], &actions, &attributes, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(input[0]);
  ::close(output[1]);
  input_ = input[1];
  output_ = output[0];
  if (code != 0) {
    ::close(std::exchange(input_, -1));
    ::close(std::exchange(output_, -1));
    process_ = -1;
    fail(code, name_);
  }
}

Child::~Child() {
  close_input();
  ::close(output_);
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
}

void Child::write(std::string const& text) const {
  for (std::size_t done = 0; done < text.size();) {
    auto const count = ::write(input_, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) {
      fail(errno, name_);
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

void Child::close_input() {
  if (input_ >= 0) {
    ::close(std::exchange(input_, -1));
  }
}

std::string Child::read_line(Clock::time_point deadline) {
  while (true) {
    if (auto const end = unread_.find('\n'); end != std::string::npos) {
      auto line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd waiting{output_, POLLIN, 0};
    if (::poll(&waiting, 1, ms_until(deadline)) == 0) {
      throw std::runtime_error(fmt::format("{}: no answer within the time limit", name_));
    }
    std::array<char, 512> block{};
    auto const count = ::read(output_, block.data(), block.size());
    if (count == 0) {
      throw std::runtime_error(fmt::format("{}: ended before it answered", name_));
    }
    if (count > 0) {
      unread_.append(block.data(), static_cast<std::size_t>(count));
    }
  }
}

int Child::wait(Clock::time_point deadline) {
  close_input();
  // Its output ends when it does, so that no loop has to ask for its end.
  std::array<char, 512> block{};
  while (true) {
    pollfd waiting{output_, POLLIN, 0};
    if (::poll(&waiting, 1, ms_until(deadline)) == 0) {
      ::kill(process_, SIGKILL);
      break;
    }
    auto const count = ::read(output_, block.data(), block.size());
    if (count == 0 || (count < 0 && errno != EINTR)) {
      break;
    }
  }
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  return status_of(status);
}

}  // namespace msstream::doctor
