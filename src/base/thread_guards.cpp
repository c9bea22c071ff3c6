// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/thread_guards.hpp>

#include <fmt/core.h>

#include <cstdio>
#include <sstream>
#include <stdexcept>

namespace msstream::detail {

namespace {

std::string name_of(std::thread::id id) {
  std::ostringstream name;
  name << "thread " << id;
  return name.str();
}

}  // namespace

void GuardedThread::close_lost(std::string_view what) {
  std::string message;
  {
    std::lock_guard const guard(mutex_);
    message = std::exchange(message_, {});
    has_lost_.store(false);
  }
  for (auto const close : closers_) {
    close();
  }
  throw std::logic_error(fmt::format(
      "'{}': a scope was destroyed by a thread that did not open it, and has been closed now{}{}",
      what,
      message.empty() ? "" : ": ",
      message));
}

void GuardedThread::lose(char const* kind,
                         std::string_view name,
                         std::source_location opened_at) noexcept {
  try {
    auto message = fmt::format(
        "the {} '{}', opened by {} at {}:{}, was destroyed by {}; it stays open until the thread "
        "that opened it issues an operation",
        kind,
        name,
        name_of(id_),
        opened_at.file_name(),
        opened_at.line(),
        name_of(std::this_thread::get_id()));
    std::fprintf(stderr, "msstream: %s\n", message.c_str());
    note_lost(std::move(message));
  } catch (...) {  // the host has no memory for the message
    note_lost({});
  }
}

void GuardedThread::log_late(char const* kind,
                             std::string_view name,
                             std::source_location opened_at) noexcept {
  std::fprintf(stderr,
               "msstream: the %s '%.*s', opened at %s:%u by a thread that was ending, was "
               "destroyed by another thread; it stays open\n",
               kind,
               static_cast<int>(name.size()),
               name.data(),
               opened_at.file_name(),
               static_cast<unsigned>(opened_at.line()));
}

void GuardedThread::note_lost(std::string message) noexcept {
  std::lock_guard const guard(mutex_);
  if (message_.empty()) {
    message_ = std::move(message);
  }
  has_lost_.store(true, std::memory_order_release);
}

}  // namespace msstream::detail
