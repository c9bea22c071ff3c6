// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/meeting_place.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
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
  /// rank is already waiting to make a communicator of this name.
  [[nodiscard]] std::shared_ptr<MeetingPlace> join(int rank,
                                                   std::string const& name,
                                                   std::chrono::nanoseconds timeout,
                                                   std::source_location made_at);
  /// Makes all collectives that wait for the rank, or will, fail. Only the first loss counts.
  void lose(int rank, std::string const& why);
  /// Marks that the rank's function has returned: it makes no communicators any more.
  void note_return(int rank);
  /// Returns the rank that was lost first; -1 if none.
  [[nodiscard]] int first_lost();

 private:
  friend class MeetingPlace;

  /// Returns the collective in which the rank waits at a place other than `but`, and the name of
  /// that place's communicator; an empty text if there is none. The caller must hold the lock.
  [[nodiscard]] std::string whereabouts(int rank, MeetingPlace const& but) const;
  [[nodiscard]] std::shared_ptr<MeetingPlace> open_place(std::string const& name);

  int const size_;
  std::mutex mutex_;
  std::optional<Loss> lost_;
  std::vector<bool> returned_;
  std::vector<std::weak_ptr<MeetingPlace>> places_;  ///< all places, for lose() and whereabouts()
};

}  // namespace msstream::comm::detail
