// SPDX-License-Identifier: Apache-2.0
#include "comm/thread_world.hpp"

#include "comm/timeout.hpp"
#include "comm/world_access.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/detail/start_thread.hpp>
#include <msstream/comm/world.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

namespace msstream::comm {
namespace detail {

std::shared_ptr<MeetingPlace> ThreadWorld::open_place(std::string const& name,
                                                      SharedGroup const& group) {
  auto const key = key_of(group, name);
  std::erase_if(places_, [](auto const& place) { return place.expired(); });
  for (auto const& known : places_) {
    if (auto place = known.lock();
        place != nullptr && place->is_open() && key_of(place->group(), place->name()) == key) {
      return place;
    }
  }
  auto place = std::make_shared<MeetingPlace>(shared_from_this(), name, group);
  places_.push_back(place);
  for (auto const& loss : losses_) {
    fail_by(loss, *place);
  }
  return place;
}

void ThreadWorld::fail_by(Loss const& loss, MeetingPlace& place) {
  int const rank = rank_in_group(place.group(), loss.rank);
  if (rank < 0) {
    return;
  }
  int const blamed = rank_in_group(place.group(), loss.blamed);
  place.fail(blamed < 0 ? rank : blamed, loss.why);
}

std::shared_ptr<MeetingPlace> ThreadWorld::join(int rank,
                                                std::string const& name,
                                                std::chrono::nanoseconds timeout,
                                                std::source_location made_at,
                                                SharedGroup const& group) {
  std::shared_ptr<MeetingPlace> place;
  {
    std::unique_lock lock(mutex_);
    place = open_place(name, group);
    auto& seat = place->seats_[static_cast<std::size_t>(rank)];
    if (seat.has_joined) {
      throw std::logic_error(
          fmt::format("{}: rank {} is in {} at {}:{}, and waits for the others in it at {}:{} "
                      "already",
                      title_of(group, name),
                      rank,
                      entry_of(name),
                      made_at.file_name(),
                      made_at.line(),
                      seat.made_at.file_name(),
                      seat.made_at.line()));
    }
    seat.has_joined = true;
    seat.made_at = made_at;
    place->changed_.notify_all();
    int const size = place->size();
    auto const absentee = [&] {
      return static_cast<int>(std::find_if(place->seats_.begin(),
                                           place->seats_.end(),
                                           [](auto const& other) { return !other.has_joined; }) -
                              place->seats_.begin());
    };
    auto const fail_for_want_of = [&](int absent, std::string_view why) {
      place->fail(absent,
                  fmt::format("{} to {}, in which rank {} waits at {}:{}",
                              why,
                              entry_of(name),
                              rank,
                              made_at.file_name(),
                              made_at.line()));
    };
    bool const in_time = place->changed_.wait_until(lock, deadline_after(timeout), [&] {
      int const absent = absentee();
      if (absent < size && returned_[static_cast<std::size_t>(rank_in_whole(group, absent))]) {
        fail_for_want_of(absent, "its function has returned, and it did not come");
      }
      return absent == size || place->failure_.has_value();
    });
    if (!in_time) {
      fail_for_want_of(absentee(), "it did not come within " + timeout_text(timeout));
    }
    if (absentee() == size) {
      return place;  // if it has failed meanwhile, the first collective tells
    }
  }
  place->rethrow_failure(rank, nullptr);
  return place;
}

void ThreadWorld::lose(int rank, int blamed, std::string const& why) {
  std::lock_guard const guard(mutex_);
  losses_.push_back({rank, blamed, why});
  for (auto const& known : places_) {
    if (auto const place = known.lock()) {
      fail_by(losses_.back(), *place);
    }
  }
}

void ThreadWorld::note_return(int rank) {
  std::lock_guard const guard(mutex_);
  returned_[static_cast<std::size_t>(rank)] = true;
  for (auto const& known : places_) {
    if (auto const place = known.lock()) {
      place->changed_.notify_all();
    }
  }
}

int ThreadWorld::first_lost() {
  std::lock_guard const guard(mutex_);
  return losses_.empty() ? -1 : losses_.front().blamed;
}

std::string ThreadWorld::whereabouts(int rank, MeetingPlace const& but) const {
  for (auto const& known : places_) {
    auto const place = known.lock();
    if (place == nullptr || place.get() == &but) {
      continue;
    }
    int const in_group = rank_in_group(place->group(), rank);
    if (in_group < 0) {
      continue;
    }
    place->settle();
    auto const& seat = place->seats_[static_cast<std::size_t>(in_group)];
    if (seat.waits_in != nullptr && seat.meeting == nullptr) {
      return fmt::format(
          "{} of {}", to_string(*seat.waits_in), title_of(place->group(), place->name()));
    }
  }
  return {};
}

namespace {

[[nodiscard]] std::string message_of(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

/// Returns the rank of the whole world that a failure blames: another one if the failure is a
/// PeerLost.
[[nodiscard]] int blamed_by(int rank, int size, std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (PeerLost const& error) {
    auto const lost = error.rank_in_whole();
    return lost >= 0 && lost < size ? lost : rank;  // that of another world is none of this one
  } catch (...) {
    return rank;
  }
}

/// Throws a PeerLost for the rank that has failed by itself: the rank `lost`, or the one that it
/// blames, and so on. A rank that others have waited for in vain may have no exception.
[[noreturn]] void throw_lost(int lost, std::vector<std::exception_ptr> const& failures) {
  auto failure = *std::find_if(
      failures.begin(), failures.end(), [](auto const& of_rank) { return of_rank != nullptr; });
  for (std::size_t step = 0; step < failures.size(); ++step) {
    auto const& own = failures[static_cast<std::size_t>(lost)];
    if (own == nullptr) {
      break;
    }
    failure = own;
    lost = blamed_by(lost, static_cast<int>(failures.size()), own);
  }
  auto const message = fmt::format(
      "rank {} of {} (threads) has failed: {}", lost, failures.size(), message_of(failure));
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    std::throw_with_nested(PeerLost(lost, message));
  }
}

}  // namespace

}  // namespace detail

void run_as_threads(int ranks, std::function<void(World const&)> const& function) {
  constexpr int kMostRanks = 1024;
  require(ranks >= 1 && ranks <= kMostRanks,
          "run_as_threads: {} ranks; expected 1 to {}",
          ranks,
          kMostRanks);
  auto const shared = std::make_shared<detail::ThreadWorld>(ranks);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    threads.reserve(failures.size());
    for (int rank = 0; rank < ranks; ++rank) {
      auto const run = [&, rank] {
        try {
          function(detail::WorldAccess::make(rank, ranks, rank, World::Launch::threads, shared));
        } catch (...) {
          auto& failure = failures[static_cast<std::size_t>(rank)];
          failure = std::current_exception();
          int const blamed = detail::blamed_by(rank, ranks, failure);
          shared->lose(
              rank, blamed, (blamed == rank ? "it threw: " : "") + detail::message_of(failure));
        }
        shared->note_return(rank);
      };
      try {
        threads.push_back(
            msstream::detail::start_thread<std::jthread>("a rank of run_as_threads", run));
      } catch (...) {
        shared->lose(rank, rank, "its thread cannot be started");
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
        break;
      }
    }
  }
  if (int const lost = shared->first_lost(); lost >= 0) {
    detail::throw_lost(lost, failures);
  }
}

}  // namespace msstream::comm
