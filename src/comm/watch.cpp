// SPDX-License-Identifier: Apache-2.0
#include "comm/watch.hpp"

#include "base/unheard_failure.hpp"

#include <msstream/base/detail/start_thread.hpp>

#include <algorithm>
#include <utility>

namespace msstream::comm::detail {

Watch::Watch(std::chrono::nanoseconds interval, std::function<void()> look)
    : look_(std::move(look)),
      thread_(msstream::detail::start_thread("the watch of a communicator",
                                             [this, interval] { run(interval); })) {}

Watch::~Watch() {
  {
    std::lock_guard const guard(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watch::run(std::chrono::nanoseconds interval) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return stops_; })) {
    lock.unlock();
    look_();
    lock.lock();
  }
}

void Progress::look(order::PositionSet latest) {
  drop_complete(latest);
  while (!seen_.empty()) {
    drop_complete(seen_.front());
    if (!seen_.front().empty()) {
      break;
    }
    seen_.pop_front();
    progress_at_ = std::chrono::steady_clock::now();
  }
  if (latest.empty()) {
    return;
  }
  if (seen_.empty()) {
    progress_at_ = std::chrono::steady_clock::now();
  }
  bool const is_new =
      seen_.empty() ||
      !std::equal(latest.begin(), latest.end(), seen_.back().begin(), seen_.back().end());
  if (is_new) {
    seen_.push_back(latest);
  }
}

std::chrono::nanoseconds Progress::stalled() const {
  return seen_.empty() ? std::chrono::nanoseconds()
                       : std::chrono::steady_clock::now() - progress_at_;
}

void Progress::drop_complete(order::PositionSet& positions) {
  msstream::detail::UnheardFailure const dropped;  // another call throws it
  positions.remove_if([this](order::Position const& position) {
    try {
      return tracker_->is_complete(position);
    } catch (...) {
      return true;
    }
  });
}

}  // namespace msstream::comm::detail
