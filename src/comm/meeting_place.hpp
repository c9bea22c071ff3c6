// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/announcements.hpp"
#include "comm/collective.hpp"
#include "comm/group.hpp"
#include "comm/launches.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace msstream::comm::detail {

class ThreadWorld;

/// The parts of a collective, by rank; null for ranks that do not take part.
using Parts = std::span<Part const* const>;

/// The place where the ranks of one communicator meet, if they are threads of one process.
///
/// States: a place is open until all ranks have joined, then sound until its first failure, which
/// stays. A rank is absent, waits in a collective, or carries it out together with the other ranks
/// of it; each rank carries out one collective at a time. If another library carries collectives
/// out, ranks only announce them, and may be many collectives ahead of each other. Ownership:
/// shared by the ranks' communicators and by their collectives in flight. Memory ordering: what a
/// rank's stream wrote before it came is visible to the others while they carry the collective out,
/// and what they wrote then is visible to it afterwards.
class MeetingPlace {
 public:
  /// `group` are the ranks that meet; null for all of the world.
  MeetingPlace(std::shared_ptr<ThreadWorld> world, std::string name, SharedGroup group = nullptr);
  ~MeetingPlace();
  MeetingPlace(MeetingPlace const&) = delete;
  MeetingPlace& operator=(MeetingPlace const&) = delete;

  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] SharedGroup const& group() const noexcept { return group_; }
  [[nodiscard]] int size() const noexcept;

  /// Waits until all ranks that the collective needs have come to it, then calls `carry_out(parts)`
  /// and returns when all of them have. Returns without calling it if the place has failed, or
  /// fails meanwhile: because the ranks' collectives differ, or because a rank is lost or does not
  /// come within the timeout. Blocks the calling thread, which must be a stream's own.
  void meet(int rank,
            Part const& part,
            std::chrono::nanoseconds timeout,
            std::function<void(Parts parts)> const& carry_out);

  /// Tells that a rank has issued a collective that another library carries out, without waiting
  /// for the other ranks. Makes the place fail if the ranks' collectives differ, or if a rank that
  /// the collective needs has left.
  void announce(int rank, Part const& part);
  /// The collectives of all ranks that another library has launched.
  [[nodiscard]] Launches& launches() noexcept { return launches_; }
  /// Tells whether a rank has announced collectives in flight, for fail_stalled().
  void set_in_flight(int rank, bool is_in_flight);
  /// Makes the place fail because no announced collective of a rank has ended within the timeout,
  /// with the loss of a rank that has none in flight.
  void fail_stalled(int rank, std::chrono::nanoseconds timeout);
  /// Returns the value that rank 0 has passed. Waits for rank 0; throws the place's failure.
  [[nodiscard]] std::string share(int rank,
                                  std::string const& value_of_first,
                                  std::chrono::nanoseconds timeout);

  /// Returns the texts that all ranks have passed, in the order of the ranks. Waits for them;
  /// throws the place's failure, among others if a rank has left or does not come within the
  /// timeout.
  [[nodiscard]] std::vector<std::string> exchange(int rank,
                                                  std::string const& own,
                                                  std::chrono::nanoseconds timeout);

  /// Makes the place fail because of what a rank's collective contains. Only the first failure
  /// counts.
  void refuse(int rank, Part const& part, std::string const& why);
  /// Makes the place fail because a rank is gone. Only the first failure counts.
  void lose(int rank, std::string const& why);
  /// Marks that a rank has ended its communicator. The place fails only if another rank needs it.
  void leave(int rank);

  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_acquire);
  }
  /// Throws the failure of the place, if there is one, to a rank: PeerLost or CollectiveError. The
  /// message names the rank's collective that has failed, otherwise `issued`, unless it is null.
  void rethrow_failure(int rank, Part const* issued) const;
  /// Returns whether the failure of the place is the loss of this rank itself.
  [[nodiscard]] bool is_own_loss(int rank) const;

 private:
  friend class ThreadWorld;

  struct Meeting {
    std::vector<Part const*> parts;
    int unfinished = 0;
  };
  /// The texts of an exchange, by rank.
  struct Exchange {
    std::vector<std::optional<std::string>> texts;

    /// Returns the first rank that has not come; the number of ranks if all have.
    [[nodiscard]] int absentee() const;
  };
  /// One rank at this place.
  struct Seat {
    bool has_joined = false;
    bool has_left = false;
    std::source_location made_at = {};
    Part const* waits_in = nullptr;  ///< the collective in which the rank waits for others
    std::shared_ptr<Meeting> meeting;
    std::optional<Part> latest;  ///< the latest collective that has ended, or all have announced
    /// The announced collectives that some of their ranks have not announced. `waits_in` is the
    /// first of them.
    std::deque<Part> ahead;
    bool is_in_flight = false;  ///< whether announced collectives are in flight
  };
  struct Failure {
    int lost_rank;  ///< -1: the ranks' collectives differ
    std::string why;
    std::vector<std::string> missed;  ///< by rank, the collective that has failed; empty if none
  };

  // The functions below need the world's lock.

  /// Takes the announcements that no lock orders to the ranks' seats, if they are not there yet,
  /// and fails if they differ. Called before something that needs to know what the ranks wait for,
  /// such as a timeout in another communicator.
  void settle();
  void announce_in_turn(int rank, Part const& part);
  void fail(int lost_rank, std::string why);
  [[nodiscard]] bool is_open() const;
  /// Makes the place fail if a waiting rank's collective differs, or if a rank that the collective
  /// needs has left.
  void look_for_trouble(int rank, Part const& part);
  /// Returns whether all ranks that the collective of `self` needs wait in it.
  [[nodiscard]] bool have_all_come(int self, Part const& part) const;
  void begin_if_all_came(int self, Part const& part);
  void fail_by_timeout(int rank, Part const& part, std::chrono::nanoseconds timeout);
  void finish(int rank, Part const& part, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<ThreadWorld> world_;
  std::string const name_;
  SharedGroup const group_;
  std::vector<Seat> seats_;  ///< by rank in the group
  /// The announcements of collectives of all ranks, until the first event that concerns the order
  /// of the ranks: a collective between two, a rank that leaves, or a failure.
  Announcements announcements_;
  Launches launches_;
  bool is_settled_ = false;  ///< whether the seats have the announcements
  std::optional<Failure> failure_;
  std::atomic<bool> has_failed_{false};  ///< whether there is a failure, without the lock
  std::optional<std::string> shared_;    ///< what rank 0 has passed to share()
  std::shared_ptr<Exchange> exchange_;   ///< to which some ranks have come; null if there is none
  std::condition_variable changed_;
};

}  // namespace msstream::comm::detail
