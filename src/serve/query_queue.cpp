// SPDX-License-Identifier: Apache-2.0
#include "serve/query_queue.hpp"

#include <algorithm>
#include <mutex>

namespace msstream::serve {

namespace {

/// The maximum number of displaced queries that still wait for their replies. When it is reached, a
/// full queue refuses new queries instead of displacing others.
constexpr std::size_t kMostDisplaced = 64;
constexpr auto kHighest = static_cast<Clock::rep>(Query::Priority::high);

bool has_deadline(WaitingQuery const& query) {
  return query.deadline != Clock::time_point::max();
}

}  // namespace

QueryQueue::QueryQueue(std::size_t capacity, std::chrono::nanoseconds ageing)
    : capacity_(capacity), ageing_(ageing), places_(capacity + std::min(capacity, kMostDisplaced)) {
  free_.reserve(places_.size());
  deadlines_.reserve(capacity);
  for (auto& place : places_) {
    free_.push_back(&place);
  }
}

WaitingQuery* QueryQueue::reserve(Query::Priority priority) noexcept {
  std::lock_guard const guard(lock_);
  if (free_.empty() || (used_ == capacity_ && !displace_below(priority))) {
    return nullptr;
  }
  ++used_;
  auto* const place = free_.back();
  free_.pop_back();
  return place;
}

void QueryQueue::release(WaitingQuery& place) noexcept {
  std::lock_guard const guard(lock_);
  used_ -= place.is_displaced ? 0 : 1;
  place.is_displaced = false;
  free_.push_back(&place);
}

void QueryQueue::push(WaitingQuery& query) noexcept {
  std::lock_guard const guard(lock_);
  auto& line = line_of(query);
  query.before = line.last;
  query.after = nullptr;
  (line.last == nullptr ? line.first : line.last->after) = &query;
  line.last = &query;
  if (has_deadline(query)) {
    insert_deadline(query);
    note_next_due();
  }
  rows_ += query.ticket.rows_needed;
  waiting_.fetch_add(1);
}

Clock::time_point QueryQueue::ready_at(Batching const& batching) const noexcept {
  std::lock_guard const guard(lock_);
  return time_of_launch(batching);
}

WaitingQuery* QueryQueue::take_foremost(Clock::time_point now) noexcept {
  std::lock_guard const guard(lock_);
  auto* const query = foremost(now);
  if (query != nullptr) {
    unlink(*query);
  }
  return query;
}

std::size_t QueryQueue::take(Batching const& batching,
                             Clock::time_point now,
                             std::vector<WaitingQuery*>& to) noexcept {
  std::lock_guard const guard(lock_);
  if (time_of_launch(batching) > now) {
    return 0;
  }
  std::size_t taken = 0;
  auto rows_left = batching.most_rows;
  for (auto* query = foremost(now); query != nullptr && query->ticket.rows_needed <= rows_left;
       query = batching.together ? foremost(now) : nullptr) {
    unlink(*query);
    rows_left -= query->ticket.rows_needed;
    to.push_back(query);
    ++taken;
  }
  return taken;
}

WaitingQuery* QueryQueue::take_due(Clock::time_point now) noexcept {
  std::lock_guard const guard(lock_);
  auto* query = displaced_;
  if (query != nullptr) {
    displaced_ = query->after;
  } else if (!deadlines_.empty() && deadlines_.front()->deadline <= now) {
    query = deadlines_.front();
    unlink(*query);
  }
  note_next_due();
  return query;
}

Clock::time_point QueryQueue::time_of_launch(Batching const& batching) const noexcept {
  auto oldest = Clock::time_point::max();
  for (auto const& line : lines_) {
    if (line.first != nullptr) {
      oldest = std::min(oldest, line.first->ticket.admitted_at);
    }
  }
  bool const has_high = lines_.back().first != nullptr;
  if (waiting_.load() == 0 || !batching.together || has_high || rows_ >= batching.most_rows ||
      waiting_.load() == capacity_) {
    return oldest;
  }
  auto time = oldest + batching.delay;
  if (!deadlines_.empty()) {
    auto const& next = *deadlines_.front();
    auto const half = (next.deadline - next.ticket.admitted_at) / 2;
    time =
        std::min(time, next.deadline - std::min<Clock::duration>(batching.before_deadline, half));
  }
  return time;
}

WaitingQuery* QueryQueue::foremost(Clock::time_point now) const noexcept {
  WaitingQuery* best = nullptr;
  Clock::rep best_class = 0;
  for (auto const& line : lines_) {
    if (auto* const query = line.first) {
      auto const aged = (now - query->ticket.admitted_at) / ageing_;
      auto const its_class =
          std::min<Clock::rep>(static_cast<Clock::rep>(query->priority) + aged, kHighest);
      if (best == nullptr || its_class > best_class ||
          (its_class == best_class && query->ticket.admitted_at < best->ticket.admitted_at)) {
        best = query;
        best_class = its_class;
      }
    }
  }
  return best;
}

bool QueryQueue::displace_below(Query::Priority priority) noexcept {
  for (auto& line : lines_) {
    if (auto* const query = line.last) {
      if (query->priority >= priority) {
        return false;
      }
      unlink(*query);
      query->is_displaced = true;
      query->after = displaced_;
      displaced_ = query;
      --used_;
      note_next_due();
      return true;
    }
  }
  return false;
}

void QueryQueue::note_next_due() noexcept {
  auto const due = displaced_ != nullptr ? Clock::time_point::min()
                   : deadlines_.empty()  ? Clock::time_point::max()
                                         : deadlines_.front()->deadline;
  next_due_.store(due.time_since_epoch().count());
}

QueryQueue::Line& QueryQueue::line_of(WaitingQuery const& query) noexcept {
  return lines_[static_cast<std::size_t>(query.priority)];
}

void QueryQueue::unlink(WaitingQuery& query) noexcept {
  auto& line = line_of(query);
  (query.before == nullptr ? line.first : query.before->after) = query.after;
  (query.after == nullptr ? line.last : query.after->before) = query.before;
  if (has_deadline(query)) {
    remove_deadline(query);
    note_next_due();
  }
  rows_ -= query.ticket.rows_needed;
  waiting_.fetch_sub(1);
}

void QueryQueue::insert_deadline(WaitingQuery& query) noexcept {
  deadlines_.push_back(&query);
  query.heap_place = deadlines_.size() - 1;
  settle(query.heap_place);
}

void QueryQueue::remove_deadline(WaitingQuery const& query) noexcept {
  auto const place = query.heap_place;
  auto* const moved = deadlines_.back();
  deadlines_.pop_back();
  if (moved != &query) {
    put(place, moved);
    settle(place);
  }
}

void QueryQueue::settle(std::size_t place) noexcept {
  auto* const query = deadlines_[place];
  auto const is_before = [](WaitingQuery const* left, WaitingQuery const* right) {
    return left->deadline < right->deadline;
  };
  while (place != 0 && is_before(query, deadlines_[(place - 1) / 2])) {
    put(place, deadlines_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  while (true) {
    auto child = 2 * place + 1;
    if (child + 1 < deadlines_.size() && is_before(deadlines_[child + 1], deadlines_[child])) {
      ++child;
    }
    if (child >= deadlines_.size() || !is_before(deadlines_[child], query)) {
      break;
    }
    put(place, deadlines_[child]);
    place = child;
  }
  put(place, query);
}

void QueryQueue::put(std::size_t place, WaitingQuery* query) noexcept {
  deadlines_[place] = query;
  query->heap_place = place;
}

}  // namespace msstream::serve
