// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/meeting_place.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::comm::detail {

/// The state that ranks share if they are threads of one process: the places where their
/// communicators meet, and the ranks that are gone.
///
/// Ownership: shared by the worlds of all ranks. One mutex protects the world and all its places,
/// so that a rank that waits in vain can look where the others are.
class ThreadWorld : public std::enable_shared_from_this<ThreadWorld> {
 public:
  explicit ThreadWorld(int size) : size_(size), returned_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] int size() const noexcept { return size_; }

  /// Waits until all ranks make a communicator of this name, and returns the place where they meet.
  /// A name may be used again: the ranks' n-th communicators of a name belong together. Throws
  /// PeerLost if a rank does not come within the timeout or is gone, and std::logic_error if the
  /// rank is already waiting to make a communicator of this name. With a group, its ranks alone
  /// meet, `rank` is the number in the group, and other groups may use the same name.
  [[nodiscard]] std::shared_ptr<MeetingPlace> join(int rank,
                                                   std::string const& name,
                                                   std::chrono::nanoseconds timeout,
                                                   std::source_location made_at,
                                                   SharedGroup const& group = nullptr);
  /// Makes all communicators of which a rank is one fail, those that are made later included.
  /// `blamed` is the rank that has failed first, which may be another one: communicators of both
  /// fail with its loss. Both are numbers in the whole world.
  void lose(int rank, int blamed, std::string const& why);
  /// Marks that the rank's function has returned: it makes no communicators any more.
  void note_return(int rank);
  /// Returns the rank that the first loss blames; -1 if there is none.
  [[nodiscard]] int first_lost();

 private:
  friend class MeetingPlace;

  struct Loss {
    int rank;
    int blamed;
    std::string why;
  };

  // The functions below need the lock.

  /// Returns the collective in which a rank of the whole world waits at a place other than `but`,
  /// and the name of that place's communicator; an empty text if there is none.
  [[nodiscard]] std::string whereabouts(int rank, MeetingPlace const& but) const;
  [[nodiscard]] std::shared_ptr<MeetingPlace> open_place(std::string const& name,
                                                         SharedGroup const& group);
  static void fail_by(Loss const& loss, MeetingPlace& place);

  int const size_;
  std::mutex mutex_;
  std::vector<Loss> losses_;  ///< in their order
  std::vector<bool> returned_;
  std::vector<std::weak_ptr<MeetingPlace>> places_;  ///< all places, for lose() and whereabouts()
};

}  // namespace msstream::comm::detail
