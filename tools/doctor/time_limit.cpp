// SPDX-License-Identifier: Apache-2.0
#include "doctor/time_limit.hpp"

#include "cli/failure_text.hpp"

#include <exception>
#include <utility>

namespace msstream::doctor {

TimeLimit::TimeLimit(std::chrono::milliseconds limit,
                     std::function<void(std::string const&)> expired)
    : limit_(limit), expired_(std::move(expired)) {
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (...) {
    problem_ = cli::failure_text(std::current_exception());
  }
}

TimeLimit::~TimeLimit() {
  {
    std::lock_guard const lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void TimeLimit::begin(std::string_view check) {
  {
    std::lock_guard const lock(mutex_);
    check_ = check;
    began_ = Clock::now();
  }
  changed_.notify_all();
}

void TimeLimit::end() {
  begin({});
}

void TimeLimit::watch() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (check_.empty()) {
      changed_.wait(lock);
      continue;
    }
    auto const began = began_;
    changed_.wait_until(lock, began + limit_);
    if (!is_over_ && !check_.empty() && began_ == began && Clock::now() >= began + limit_) {
      auto const check = std::exchange(check_, {});
      is_over_ = true;
      lock.unlock();
      expired_(check);
      return;
    }
  }
}

}  // namespace msstream::doctor
