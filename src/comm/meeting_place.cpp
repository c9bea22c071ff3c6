// SPDX-License-Identifier: Apache-2.0
#include "comm/meeting_place.hpp"

#include "comm/thread_world.hpp"
#include "comm/timeout.hpp"

#include <msstream/comm/communicator.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

namespace msstream::comm::detail {

MeetingPlace::MeetingPlace(std::shared_ptr<ThreadWorld> world, std::string name, SharedGroup group)
    : world_(std::move(world)),
      name_(std::move(name)),
      group_(std::move(group)),
      seats_(group_ == nullptr ? static_cast<std::size_t>(world_->size()) : group_->members.size()),
      announcements_(static_cast<int>(seats_.size())),
      launches_(static_cast<int>(seats_.size())) {}
MeetingPlace::~MeetingPlace() = default;

int MeetingPlace::size() const noexcept {
  return static_cast<int>(seats_.size());
}

bool MeetingPlace::is_open() const {
  return !failure_ && std::any_of(seats_.begin(), seats_.end(), [](Seat const& seat) {
    return !seat.has_joined;
  });
}

void MeetingPlace::meet(int rank,
                        Part const& part,
                        std::chrono::nanoseconds timeout,
                        std::function<void(Parts parts)> const& carry_out) {
  std::unique_lock lock(world_->mutex_);
  auto& seat = seats_[static_cast<std::size_t>(rank)];
  if (!failure_) {
    look_for_trouble(rank, part);
  }
  if (!failure_) {
    seat.waits_in = &part;
    try {
      begin_if_all_came(rank, part);
    } catch (...) {  // no memory for the meeting, which has not begun
      seat.waits_in = nullptr;
      throw;
    }
    bool const in_time = changed_.wait_until(lock, deadline_after(timeout), [&] {
      return seat.meeting != nullptr || failure_.has_value();
    });
    if (!in_time) {
      fail_by_timeout(rank, part, timeout);
    }
    seat.waits_in = nullptr;
  }
  // A failure after all ranks came does not end their collective: none of them waits any more.
  if (auto const meeting = seat.meeting; meeting != nullptr) {
    lock.unlock();
    carry_out(meeting->parts);
    lock.lock();
    finish(rank, part, lock);
  } else if (auto& missed = failure_->missed[static_cast<std::size_t>(rank)]; missed.empty()) {
    missed = to_string(part);
  }
}

void MeetingPlace::finish(int rank, Part const& part, std::unique_lock<std::mutex>& lock) {
  auto& seat = seats_[static_cast<std::size_t>(rank)];
  auto const meeting = std::exchange(seat.meeting, nullptr);
  seat.latest = part;
  if (--meeting->unfinished == 0) {
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return meeting->unfinished == 0; });
  }
}

void MeetingPlace::look_for_trouble(int rank, Part const& part) {
  if (seats_[static_cast<std::size_t>(rank)].waits_in != nullptr) {
    fail(-1,
         fmt::format("rank {} has two collectives at once, one of them {}", rank, to_string(part)));
    return;
  }
  for (int other = 0; other < size(); ++other) {
    auto const& seat = seats_[static_cast<std::size_t>(other)];
    if (other == rank || !needs(part.what, other)) {
      continue;
    }
    // A rank may have left when its announced parts of collectives were complete.
    if (seat.has_left && seat.waits_in == nullptr && seat.ahead.empty()) {
      fail(other,
           fmt::format(
               "it has ended its communicator, and rank {} needs it in {}", rank, to_string(part)));
      return;
    }
    auto const* const theirs = seat.waits_in;
    bool const waits = theirs != nullptr && seat.meeting == nullptr;
    if (waits && needs(theirs->what, rank) && !agree(part.what, theirs->what)) {
      fail(-1,
           fmt::format("rank {} has {}, and rank {} has {}",
                       std::min(rank, other),
                       to_string(rank < other ? part : *theirs),
                       std::max(rank, other),
                       to_string(rank < other ? *theirs : part)));
      return;
    }
  }
}

bool MeetingPlace::have_all_come(int self, Part const& part) const {
  for (int other = 0; other < size(); ++other) {
    auto const& seat = seats_[static_cast<std::size_t>(other)];
    if (other != self && !needs(part.what, other)) {
      continue;
    }
    // A rank that waits for other ranks than this one comes later.
    if (seat.waits_in == nullptr || seat.meeting != nullptr ||
        (other != self && !needs(seat.waits_in->what, self))) {
      return false;
    }
  }
  return true;
}

void MeetingPlace::begin_if_all_came(int self, Part const& part) {
  if (!have_all_come(self, part)) {
    return;
  }
  auto const meeting = std::make_shared<Meeting>();
  meeting->parts.resize(seats_.size());
  for (int other = 0; other < size(); ++other) {
    if (other == self || needs(part.what, other)) {
      auto const i = static_cast<std::size_t>(other);
      meeting->parts[i] = seats_[i].waits_in;
      ++meeting->unfinished;
    }
  }
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (meeting->parts[i] != nullptr) {
      seats_[i].meeting = meeting;
    }
  }
  changed_.notify_all();
}

void MeetingPlace::fail_by_timeout(int rank, Part const& part, std::chrono::nanoseconds timeout) {
  std::vector<int> absent;
  for (int other = 0; other < size(); ++other) {
    auto const& seat = seats_[static_cast<std::size_t>(other)];
    if (other != rank && needs(part.what, other) && seat.waits_in == nullptr) {
      absent.push_back(other);
    }
  }
  if (absent.empty()) {  // the other rank of send or receive waits for a third one
    absent.push_back(part.what.peer);
  }
  // A rank that waits elsewhere is not the one that keeps the others waiting.
  auto const first = std::find_if(absent.begin(), absent.end(), [&](int other) {
    return world_->whereabouts(rank_in_whole(group_, other), *this).empty();
  });
  int const lost_rank = first != absent.end() ? *first : absent.front();
  auto why = fmt::format("it did not come within {} to {}, in which rank {} waits",
                         timeout_text(timeout),
                         to_string(part),
                         rank);
  for (int const other : absent) {
    auto const& seat = seats_[static_cast<std::size_t>(other)];
    auto const elsewhere = seat.waits_in != nullptr
                               ? to_string(*seat.waits_in) + " of this one"
                               : world_->whereabouts(rank_in_whole(group_, other), *this);
    why += fmt::format("; rank {}: {}, the latest here {}",
                       other,
                       elsewhere.empty() ? std::string("not waiting") : "waits in " + elsewhere,
                       seat.latest ? to_string(*seat.latest) : "none");
  }
  fail(lost_rank, std::move(why));
}

void MeetingPlace::fail(int lost_rank, std::string why) {
  settle();  // which may find the failure that came first
  if (failure_) {
    return;
  }
  std::vector<std::string> missed(seats_.size());
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].waits_in != nullptr && seats_[i].meeting == nullptr) {
      missed[i] = to_string(*seats_[i].waits_in);
    }
  }
  failure_ = Failure{lost_rank, std::move(why), std::move(missed)};
  has_failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void MeetingPlace::refuse(int rank, Part const& part, std::string const& why) {
  std::lock_guard const guard(world_->mutex_);
  fail(-1, fmt::format("rank {} has {}: {}", rank, to_string(part), why));
}

void MeetingPlace::lose(int rank, std::string const& why) {
  std::lock_guard const guard(world_->mutex_);
  fail(rank, why);
}

void MeetingPlace::leave(int rank) {
  std::lock_guard const guard(world_->mutex_);
  settle();
  seats_[static_cast<std::size_t>(rank)].has_left = true;
  if (exchange_ != nullptr && !exchange_->texts[static_cast<std::size_t>(rank)]) {
    fail(rank, "it has ended its communicator, and others wait in an exchange between the ranks");
  }
  // Others wait in what this rank has announced, if in anything, until all ranks have come.
  bool const has_announced = !seats_[static_cast<std::size_t>(rank)].ahead.empty();
  for (int other = 0; other < size() && !failure_ && !has_announced; ++other) {
    auto const& seat = seats_[static_cast<std::size_t>(other)];
    if (other != rank && seat.waits_in != nullptr && seat.meeting == nullptr &&
        needs(seat.waits_in->what, rank)) {
      fail(rank,
           fmt::format("it has ended its communicator, and rank {} needs it in {}",
                       other,
                       to_string(*seat.waits_in)));
    }
  }
}

bool MeetingPlace::is_own_loss(int rank) const {
  std::lock_guard const guard(world_->mutex_);
  return failure_ && failure_->lost_rank == rank;
}

void MeetingPlace::rethrow_failure(int rank, Part const* issued) const {
  if (!has_failed()) {
    if (issued != nullptr) {
      announcements_.expect(rank);  // announced when its operation is launched
    }
    return;
  }
  std::lock_guard const guard(world_->mutex_);
  if (failure_->lost_rank < 0) {
    throw CollectiveError(fmt::format("{}: {}", title_of(group_, name_), failure_->why));
  }
  auto missed = failure_->missed[static_cast<std::size_t>(rank)];
  if (missed.empty() && issued != nullptr) {
    missed = to_string(*issued);
  }
  auto const lost_rank = failure_->lost_rank;
  auto const in_whole = rank_in_whole(group_, lost_rank);
  throw PeerLost(lost_rank,
                 in_whole,
                 fmt::format("{}, rank {} of {}{}: {} is lost: {}",
                             title_of(group_, name_),
                             rank,
                             size(),
                             missed.empty() ? "" : ", in " + missed,
                             text_of_rank(group_, lost_rank, in_whole),
                             failure_->why));
}

}  // namespace msstream::comm::detail
