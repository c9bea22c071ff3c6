// SPDX-License-Identifier: Apache-2.0
#include <msstream/serve/query_queue.hpp>

#include <algorithm>
#include <mutex>

namespace msstream::serve {

namespace {

bool has_deadline(WaitingQuery const& query) {
  return query.deadline != Clock::time_point::max();
}

}  // namespace

QueryQueue::QueryQueue(std::size_t capacity) : places_(capacity) {
  free_.reserve(capacity);
  deadlines_.reserve(capacity);
  for (auto& place : places_) {
    free_.push_back(&place);
  }
}

WaitingQuery* QueryQueue::reserve() noexcept {
  std::lock_guard const guard(lock_);
  if (free_.empty()) {
    return nullptr;
  }
  auto* const place = free_.back();
  free_.pop_back();
  return place;
}

void QueryQueue::release(WaitingQuery& place) noexcept {
  std::lock_guard const guard(lock_);
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
  }
  rows_ += query.ticket.rows;
  waiting_.fetch_add(1);
}

WaitingQuery* QueryQueue::take(std::int64_t most_rows) noexcept {
  std::lock_guard const guard(lock_);
  for (auto const& line : lines_) {
    if (auto* const query = line.first) {
      if (query->ticket.rows > most_rows) {
        return nullptr;
      }
      unlink(*query);
      return query;
    }
  }
  return nullptr;
}

WaitingQuery* QueryQueue::take_expired(Clock::time_point now) noexcept {
  std::lock_guard const guard(lock_);
  if (deadlines_.empty() || deadlines_.front()->deadline > now) {
    return nullptr;
  }
  auto* const query = deadlines_.front();
  unlink(*query);
  return query;
}

QueryQueue::Outlook QueryQueue::outlook() const noexcept {
  std::lock_guard const guard(lock_);
  Outlook outlook{.rows = rows_};
  for (auto const& line : lines_) {
    if (line.first != nullptr) {
      outlook.oldest_admitted_at =
          std::min(outlook.oldest_admitted_at, line.first->ticket.admitted_at);
    }
  }
  if (!deadlines_.empty()) {
    outlook.next_deadline = deadlines_.front()->deadline;
  }
  return outlook;
}

QueryQueue::Line& QueryQueue::line_of(WaitingQuery const& query) noexcept {
  return lines_[lines_.size() - 1 - static_cast<std::size_t>(query.priority)];
}

void QueryQueue::unlink(WaitingQuery& query) noexcept {
  auto& line = line_of(query);
  (query.before == nullptr ? line.first : query.before->after) = query.after;
  (query.after == nullptr ? line.last : query.after->before) = query.before;
  if (has_deadline(query)) {
    remove_deadline(query);
  }
  rows_ -= query.ticket.rows;
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
