// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/range_log.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace msstream::overlap::record {

namespace {

/// Ranges of a thread that wait for take(); more are dropped.
constexpr std::size_t kMostRanges = std::size_t{1} << 17U;

std::atomic<RangeLog*> current_log{nullptr};

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::uint32_t thread_number() {
  return static_cast<std::uint32_t>(syscall(SYS_gettid));
}

}  // namespace

struct RangeLog::OfThread {
  std::mutex mutex;
  std::uint32_t thread = thread_number();
  std::vector<Range> open;
  std::vector<Range> ended;
};

/// The log of the calling thread. It belongs to one RangeLog: fork() begins another one.
struct RangeLog::Holder {
  RangeLog* owner = nullptr;
  std::shared_ptr<OfThread> log;
};

RangeLog& RangeLog::of_process() {
  RangeLog* log = current_log.load(std::memory_order_acquire);
  if (log == nullptr) {
    // Never destroyed: threads may use it until the process ends.
    auto* const made = new RangeLog;
    if (current_log.compare_exchange_strong(log, made)) {
      return *made;
    }
    delete made;
  }
  return *log;
}

void RangeLog::renew() {
  if (auto* const before = current_log.load(); before != nullptr) {
    auto* const made = new RangeLog;
    made->before_ = before;
    current_log.store(made);
  }
}

void RangeLog::watch(std::string chosen, Switch on_switch) {
  std::vector<std::shared_ptr<OfThread>> threads;
  {
    std::lock_guard const lock(mutex_);
    watched_ = std::move(chosen);
    switch_ = on_switch;
    threads = threads_;
    for (auto const& [id, range] : started_) {
      open_watched_ += is_watched(range) ? 1 : 0;
    }
  }
  for (auto const& thread : threads) {
    std::lock_guard const lock(thread->mutex);
    for (Range const& range : thread->open) {
      open_watched_ += is_watched(range) ? 1 : 0;
    }
  }
}

RangeLog::OfThread& RangeLog::here() {
  thread_local Holder holder;
  if (holder.owner != this) {
    holder.log = std::make_shared<OfThread>();
    holder.owner = this;
    std::lock_guard const lock(mutex_);
    threads_.push_back(holder.log);
  }
  return *holder.log;
}

bool RangeLog::is_watched(Range const& range) const {
  if (watched_.empty()) {
    return false;
  }
  std::string_view watched = watched_;
  if (range.name == watched) {
    return true;
  }
  if (range.domain == nullptr || !watched.starts_with(*range.domain)) {
    return false;
  }
  watched.remove_prefix(range.domain->size());
  return watched.starts_with('/') && watched.substr(1) == range.name;
}

void RangeLog::began(Range const& range) {
  if (switch_ != nullptr && is_watched(range) && open_watched_.fetch_add(1) == 0) {
    switch_(true);
  }
}

void RangeLog::ended(Range const& range) {
  if (switch_ != nullptr && is_watched(range) && open_watched_.fetch_sub(1) == 1) {
    switch_(false);
  }
}

int RangeLog::push(std::string const* domain, std::string_view name) {
  OfThread& log = here();
  Range range;
  range.name = name;
  range.domain = domain;
  range.thread = log.thread;
  began(range);
  std::lock_guard const lock(log.mutex);
  auto const depth = std::count_if(
      log.open.begin(), log.open.end(), [domain](Range const& r) { return r.domain == domain; });
  range.begin = now();
  log.open.push_back(std::move(range));
  return static_cast<int>(depth);
}

int RangeLog::pop(std::string const* domain) {
  std::int64_t const time = now();
  OfThread& log = here();
  Range range;
  int depth = 0;
  {
    std::lock_guard const lock(log.mutex);
    auto const found = std::find_if(log.open.rbegin(), log.open.rend(), [domain](Range const& r) {
      return r.domain == domain;
    });
    if (found == log.open.rend()) {
      return -1;
    }
    range = *found;
    log.open.erase(std::next(found).base());
    range.end = time;
    depth = static_cast<int>(std::count_if(
        log.open.begin(), log.open.end(), [domain](Range const& r) { return r.domain == domain; }));
    if (keeps_ && log.ended.size() < kMostRanges) {
      log.ended.push_back(range);
    }
  }
  ended(range);
  return depth;
}

std::uint64_t RangeLog::start(std::string const* domain, std::string_view name) {
  Range range;
  range.name = name;
  range.domain = domain;
  range.thread = thread_number();
  range.of_process = true;
  began(range);
  std::lock_guard const lock(mutex_);
  range.begin = now();
  std::uint64_t const id = next_id_++;
  started_.emplace(id, std::move(range));
  return id;
}

void RangeLog::end(std::uint64_t id) {
  std::int64_t const time = now();
  Range range;
  {
    std::lock_guard const lock(mutex_);
    auto const found = started_.find(id);
    if (found == started_.end()) {
      return;
    }
    range = std::move(found->second);
    started_.erase(found);
    range.end = time;
    if (keeps_ && ended_.size() < kMostRanges) {
      ended_.push_back(range);
    }
  }
  ended(range);
}

void RangeLog::name_thread(std::uint32_t thread, std::string_view name) {
  std::lock_guard const lock(mutex_);
  thread_names_[thread] = name;
}

std::vector<RangeLog::Range> RangeLog::take(bool open) {
  std::vector<Range> taken;
  std::vector<std::shared_ptr<OfThread>> threads;
  {
    std::lock_guard const lock(mutex_);
    std::swap(taken, ended_);
    if (open) {
      for (auto const& [id, range] : started_) {
        taken.push_back(range);
      }
    }
    // Logs of threads that ended have no other owner. Ranges that they left open are kept.
    threads = threads_;
    std::erase_if(threads_, [](auto const& thread) {
      if (thread.use_count() != 2) {
        return false;
      }
      std::lock_guard const thread_lock(thread->mutex);
      return thread->open.empty();
    });
  }
  for (auto const& thread : threads) {
    std::lock_guard const lock(thread->mutex);
    std::move(thread->ended.begin(), thread->ended.end(), std::back_inserter(taken));
    thread->ended.clear();
    if (open) {
      taken.insert(taken.end(), thread->open.begin(), thread->open.end());
    }
  }
  return taken;
}

std::map<std::uint32_t, std::string> RangeLog::take_thread_names() {
  std::lock_guard const lock(mutex_);
  return std::exchange(thread_names_, {});
}

}  // namespace msstream::overlap::record
