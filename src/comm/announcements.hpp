// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "comm/collective.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace msstream::comm::detail {

/// The collectives of all ranks that ranks which are threads have announced, compared without a
/// lock that the ranks share: a rank announces one every few microseconds, and its cache misses are
/// most of what that costs.
///
/// The n-th announcements of the ranks belong together. The first rank to announce its n-th puts it
/// on a board, and the others compare theirs with it. The collectives themselves are kept in a log
/// of each rank until all ranks have announced them.
///
/// States: open, then closed, and used no more. Thread-safe; a rank announces on one thread at a
/// time. Memory ordering: a log is protected by its lane's lock, which its own rank takes for
/// itself, and others only for collectives that the board cannot hold; no thread holds two. What a
/// rank wrote to its log before its entry on the board is visible to those that see the entry.
class Announcements {
 public:
  explicit Announcements(int ranks) : lanes_(static_cast<std::size_t>(ranks)) {}

  enum class Result : std::uint8_t {
    agrees,   ///< with those of the ranks that have come before
    differs,  ///< from that of another rank
    closed    ///< not noted: it must be announced otherwise, and so must all later ones
  };
  /// Announces a rank's next collective, which is one of all ranks.
  [[nodiscard]] Result announce(int rank, Part const& part);

  /// Tells that a rank will announce a collective soon: loads the other ranks' entry for it, unless
  /// the rank is likely to be the first, which has loaded it already.
  void expect(int rank) const noexcept {
    auto const number =
        lanes_[static_cast<std::size_t>(rank)].next_of_others.load(std::memory_order_relaxed);
    if (number != 0) {
      __builtin_prefetch(&entry(number));
    }
  }

  /// The announcements of a rank at the time of close().
  struct Left {
    std::optional<Part> latest;  ///< the latest collective that all ranks have announced
    std::vector<Part> ahead;     ///< those after it
  };
  /// Closes the announcements, and returns those of each rank. To be called once.
  [[nodiscard]] std::vector<Left> close();

 private:
  /// More than the collectives by which a rank is ahead: a GPU has room for as many launches.
  static constexpr std::size_t kEntries = 1024;
  static constexpr std::size_t kLine = 64;  ///< bytes of a cache line
  /// How far a rank may be ahead of the last one. Far less than half of the numbers of entries, of
  /// 16 bits, so that an entry tells which of two announcements is the later one.
  static constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 14U;

  /// The announcements of one rank. A lane has cache lines of its own, because only its rank uses
  /// it often.
  struct alignas(2 * kLine) Lane {
    msstream::detail::SpinLock lock;
    bool is_closed = false;
    std::uint64_t announced = 0;  ///< the number of the latest announcement; the first one is 1
    std::uint64_t oldest = 1;     ///< the number of the first that is kept
    /// The number of the latest announcement that is known to agree with those of other ranks.
    std::atomic<std::uint64_t> agreed{0};
    /// The number of the next announcement if another rank was the first to make the latest one,
    /// otherwise 0.
    std::atomic<std::uint64_t> next_of_others{0};
    std::vector<Part> log = std::vector<Part>(64);  ///< at n % size; a power of two

    [[nodiscard]] Part& at(std::uint64_t number) { return log[number & (log.size() - 1)]; }
  };

  /// Returns the index of an announcement's entry. One after the other they are in different cache
  /// lines: the first rank writes the next entry while others read this one.
  [[nodiscard]] static std::size_t index_of(std::uint64_t number) noexcept {
    constexpr auto kInLine = kLine / sizeof(std::uint64_t);
    return number / kInLine % kInLine + number % kInLine * kInLine +
           number / (kInLine * kInLine) * (kInLine * kInLine) % kEntries;
  }
  [[nodiscard]] std::atomic<std::uint64_t>& entry(std::uint64_t number) noexcept {
    return board_[index_of(number)];
  }
  [[nodiscard]] std::atomic<std::uint64_t> const& entry(std::uint64_t number) const noexcept {
    return board_[index_of(number)];
  }
  [[nodiscard]] std::uint64_t least_agreed() const noexcept;
  [[nodiscard]] bool make_room(Lane& lane);
  [[nodiscard]] Result compare(Lane& own, Part const& part, std::uint64_t number, int with);

  alignas(kLine) std::array<std::atomic<std::uint64_t>, kEntries> board_{};
  std::vector<Lane> lanes_;
};

}  // namespace msstream::comm::detail
