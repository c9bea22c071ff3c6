// SPDX-License-Identifier: Apache-2.0
#include "comm/announcements.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace msstream::comm::detail {
namespace {

// An entry of the board: the last 16 bits of the announcement's number, then 48 bits for its
// collective: 4 for the kind, 3 for the element type, 2 for the reduction, 10 for the root and 29
// for the count. Collectives that do not fit have a kind that is none, and the rank that has
// announced them.
constexpr unsigned kTagAt = 48;
constexpr unsigned kKindAt = 44;
constexpr unsigned kTypeAt = 41;
constexpr unsigned kReductionAt = 39;
constexpr unsigned kPeerAt = 29;
constexpr std::uint64_t kNotOnBoard = std::uint64_t{15} << kKindAt;
constexpr std::uint64_t kCode = (std::uint64_t{1} << kTagAt) - 1;

[[nodiscard]] std::uint64_t code_of(Collective const& what, int rank) noexcept {
  bool const fits = what.count >> kPeerAt == 0 && what.peer >> (kReductionAt - kPeerAt) == 0 &&
                    what.capacity == 0 && what.input_place < 0 && what.output_place < 0;
  if (!fits) {
    return kNotOnBoard + static_cast<std::uint64_t>(rank);
  }
  return static_cast<std::uint64_t>(what.kind) << kKindAt |
         static_cast<std::uint64_t>(what.dtype) << kTypeAt |
         static_cast<std::uint64_t>(what.reduction) << kReductionAt |
         static_cast<std::uint64_t>(what.peer) << kPeerAt | static_cast<std::uint64_t>(what.count);
}

/// Returns by how much the entry's number is greater than another one.
[[nodiscard]] int ahead_of(std::uint64_t entry, std::uint64_t number) noexcept {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>((entry >> kTagAt) - number));
}

}  // namespace

Announcements::Result Announcements::announce(int rank, Part const& part) {
  auto& own = lanes_[static_cast<std::size_t>(rank)];
  std::unique_lock lock(own.lock);
  if (own.is_closed || !make_room(own)) {
    return Result::closed;
  }
  auto const number = own.announced + 1;
  own.at(number) = part;
  own.announced = number;
  auto const code = code_of(part.what, rank);
  auto const mine = number << kTagAt | code;
  auto& place = entry(number);
  auto found = place.load(std::memory_order_acquire);
  while (ahead_of(found, number) < 0) {
    if (place.compare_exchange_weak(
            found, mine, std::memory_order_acq_rel, std::memory_order_acquire)) {
      own.agreed.store(number, std::memory_order_release);
      own.next_of_others.store(0, std::memory_order_relaxed);
      __builtin_prefetch(&entry(number + 1), 1);
      return Result::agrees;
    }
  }
  own.next_of_others.store(number + 1, std::memory_order_relaxed);
  if (found == mine && code < kNotOnBoard) [[likely]] {
    own.agreed.store(number, std::memory_order_release);
    return Result::agrees;
  }
  lock.unlock();
  bool const is_the_same = ahead_of(found, number) == 0;
  if (is_the_same && (code < kNotOnBoard || (found & kCode) < kNotOnBoard)) {
    return Result::differs;
  }
  if (is_the_same) {
    return compare(own, part, number, static_cast<int>((found & kCode) - kNotOnBoard));
  }
  // The entry has been replaced. The rank that did so has announced this number long before.
  auto const other = std::find_if(lanes_.begin(), lanes_.end(), [&](Lane const& lane) {
    return lane.agreed.load(std::memory_order_acquire) >= number;
  });
  return compare(own, part, number, static_cast<int>(other - lanes_.begin()));
}

/// Compares a rank's collective with that of the same number in another rank's log.
Announcements::Result Announcements::compare(Lane& own,
                                             Part const& part,
                                             std::uint64_t number,
                                             int with) {
  {
    auto& other = lanes_[static_cast<std::size_t>(with)];
    std::lock_guard const guard(other.lock);
    if (!agree(part.what, other.at(number).what)) {
      return Result::differs;
    }
  }
  std::lock_guard const guard(own.lock);
  if (!own.is_closed) {  // otherwise, who has closed it compares it, too
    own.agreed.store(number, std::memory_order_release);
  }
  return Result::agrees;
}

std::uint64_t Announcements::least_agreed() const noexcept {
  auto least = lanes_.front().agreed.load(std::memory_order_acquire);
  for (auto const& lane : lanes_) {
    least = std::min(least, lane.agreed.load(std::memory_order_acquire));
  }
  return least;
}

/// Makes room in a log for one announcement. Returns false if the rank is too far ahead. The caller
/// holds the lane's lock.
bool Announcements::make_room(Lane& lane) {
  if (lane.announced + 1 - lane.oldest < std::min<std::uint64_t>(lane.log.size(), kMostAhead))
      [[likely]] {
    return true;
  }
  lane.oldest = std::max(lane.oldest, least_agreed());
  auto const kept = lane.announced + 1 - lane.oldest;
  if (kept >= kMostAhead) {
    return false;
  }
  if (kept > lane.log.size() / 2) {  // so that the other ranks' lanes are read rarely
    std::vector<Part> larger(2 * lane.log.size());
    for (auto number = lane.oldest; number <= lane.announced; ++number) {
      larger[number & (larger.size() - 1)] = lane.at(number);
    }
    lane.log = std::move(larger);
  }
  return true;
}

std::vector<Announcements::Left> Announcements::close() {
  for (auto& lane : lanes_) {
    std::lock_guard const guard(lane.lock);
    lane.is_closed = true;
  }
  // Nothing changes any more.
  auto const met = least_agreed();
  std::vector<Left> left(lanes_.size());
  for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
    auto& lane = lanes_[rank];
    if (met != 0) {
      left[rank].latest = lane.at(met);
    }
    for (auto number = met + 1; number <= lane.announced; ++number) {
      left[rank].ahead.push_back(lane.at(number));
    }
  }
  return left;
}

}  // namespace msstream::comm::detail
