// SPDX-License-Identifier: Apache-2.0
#include "comm/meeting_place.hpp"
#include "comm/thread_world.hpp"
#include "comm/timeout.hpp"

#include <msstream/base/detail/inline_vector.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The functions of MeetingPlace for collectives that another library carries out, and for what
// ranks tell each other on the host.
namespace msstream::comm::detail {

void MeetingPlace::announce(int rank, Part const& part) {
  using Result = Announcements::Result;
  if (has_failed()) {
    return;
  }
  auto const result =
      is_between_two(part.what) ? Result::closed : announcements_.announce(rank, part);
  if (result == Result::agrees) [[likely]] {
    return;
  }
  std::lock_guard const guard(world_->mutex_);
  settle();
  if (result == Result::closed) {
    announce_in_turn(rank, part);
  }
}

void MeetingPlace::settle() {
  if (is_settled_) {
    return;
  }
  auto const left = announcements_.close();
  is_settled_ = true;
  std::size_t most_ahead = 0;
  for (std::size_t rank = 0; rank < left.size(); ++rank) {
    if (left[rank].latest) {
      seats_[rank].latest = left[rank].latest;
    }
    most_ahead = std::max(most_ahead, left[rank].ahead.size());
  }
  // Ranks that are ahead of another one may differ in what that one has not announced yet.
  for (std::size_t i = 0; i < most_ahead && !failure_; ++i) {
    std::optional<std::size_t> first;
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      if (i >= left[rank].ahead.size()) {
        continue;
      }
      if (first && !agree(left[*first].ahead[i].what, left[rank].ahead[i].what)) {
        fail(-1,
             fmt::format("rank {} has {}, and rank {} has {}",
                         *first,
                         to_string(left[*first].ahead[i]),
                         rank,
                         to_string(left[rank].ahead[i])));
        break;
      }
      first = first ? first : rank;
    }
  }
  for (std::size_t rank = 0; rank < left.size(); ++rank) {
    for (auto const& part : left[rank].ahead) {
      announce_in_turn(static_cast<int>(rank), part);
    }
  }
}

void MeetingPlace::announce_in_turn(int rank, Part const& part) {
  if (failure_) {
    return;
  }
  auto& own = seats_[static_cast<std::size_t>(rank)];
  own.ahead.push_back(part);
  if (own.waits_in != nullptr) {
    return;  // an earlier one waits for other ranks
  }
  // The ranks whose first collective ahead is new.
  msstream::detail::InlineVector<int, 16> new_first;
  new_first.push_back(rank);
  for (std::size_t i = 0; i < new_first.size(); ++i) {
    int const self = new_first[i];
    auto& seat = seats_[static_cast<std::size_t>(self)];
    if (seat.ahead.empty() || seat.waits_in != nullptr) {
      continue;
    }
    look_for_trouble(self, seat.ahead.front());
    if (failure_) {
      failure_->missed[static_cast<std::size_t>(self)] = to_string(seat.ahead.front());
      return;
    }
    seat.waits_in = &seat.ahead.front();
    if (!have_all_come(self, seat.ahead.front())) {
      continue;
    }
    auto const what = seat.ahead.front().what;
    for (int other = 0; other < size(); ++other) {
      if (other == self || needs(what, other)) {
        auto& theirs = seats_[static_cast<std::size_t>(other)];
        theirs.latest = theirs.ahead.front();
        theirs.ahead.pop_front();
        theirs.waits_in = nullptr;
        new_first.push_back(other);
      }
    }
  }
}

void MeetingPlace::set_in_flight(int rank, bool is_in_flight) {
  std::lock_guard const guard(world_->mutex_);
  seats_[static_cast<std::size_t>(rank)].is_in_flight = is_in_flight;
}

void MeetingPlace::fail_stalled(int rank, std::chrono::nanoseconds timeout) {
  std::lock_guard const guard(world_->mutex_);
  settle();
  auto const& seat = seats_[static_cast<std::size_t>(rank)];
  if (seat.waits_in != nullptr) {
    fail_by_timeout(rank, *seat.waits_in, timeout);
    return;
  }
  // All ranks have issued the collective, or it is one of a replay.
  auto const part = seat.latest ? to_string(*seat.latest) : std::string("a collective");
  for (int other = 0; other < size(); ++other) {
    if (other != rank && !seats_[static_cast<std::size_t>(other)].is_in_flight) {
      fail(other,
           fmt::format("it has no collective in flight, and since {} none of rank {} has ended, "
                       "the latest issued {}",
                       timeout_text(timeout),
                       rank,
                       part));
      return;
    }
  }
  fail(rank == 0 ? 1 : 0,
       fmt::format("all ranks have collectives in flight, none of which has ended within {}; the "
                   "latest that rank {} has issued is {}",
                   timeout_text(timeout),
                   rank,
                   part));
}

std::string MeetingPlace::share(int rank,
                                std::string const& value_of_first,
                                std::chrono::nanoseconds timeout) {
  {
    std::unique_lock lock(world_->mutex_);
    if (rank == 0) {
      shared_ = value_of_first;
      changed_.notify_all();
    }
    bool const in_time = changed_.wait_until(
        lock, deadline_after(timeout), [&] { return shared_.has_value() || failure_.has_value(); });
    if (!in_time) {
      fail(0, fmt::format("it did not make the communicator within {}", timeout_text(timeout)));
    }
    if (shared_) {
      return *shared_;
    }
  }
  rethrow_failure(rank, nullptr);
  return {};
}

int MeetingPlace::Exchange::absentee() const {
  auto const found = std::ranges::find_if(texts, [](auto const& text) { return !text; });
  return static_cast<int>(found - texts.begin());
}

std::vector<std::string> MeetingPlace::exchange(int rank,
                                                std::string const& own,
                                                std::chrono::nanoseconds timeout) {
  std::unique_lock lock(world_->mutex_);
  if (!failure_) {
    if (exchange_ == nullptr) {
      exchange_ = std::make_shared<Exchange>();
      exchange_->texts.resize(seats_.size());
    }
    auto const exchange = exchange_;
    exchange->texts[static_cast<std::size_t>(rank)] = own;
    if (exchange->absentee() == size()) {
      exchange_ = nullptr;
      changed_.notify_all();
    }
    for (int other = 0; other < size(); ++other) {
      auto const i = static_cast<std::size_t>(other);
      if (seats_[i].has_left && !exchange->texts[i]) {
        fail(other,
             fmt::format("it has ended its communicator, and rank {} waits in an exchange between "
                         "the ranks",
                         rank));
      }
    }
    bool const in_time = changed_.wait_until(lock, deadline_after(timeout), [&] {
      return exchange->absentee() == size() || failure_.has_value();
    });
    if (!in_time) {
      fail(exchange->absentee(),
           fmt::format("it did not come within {} to an exchange between the ranks, in which rank "
                       "{} waits",
                       timeout_text(timeout),
                       rank));
    }
    if (exchange->absentee() == size()) {
      std::vector<std::string> texts;
      for (auto const& text : exchange->texts) {
        texts.push_back(*text);
      }
      return texts;
    }
  }
  lock.unlock();
  rethrow_failure(rank, nullptr);
  return {};
}

}  // namespace msstream::comm::detail
