// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/collective.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::comm {

class World;

}  // namespace msstream::comm

namespace msstream::comm::detail {

/// One rank's view of the ranks of a communicator whose collectives another library carries out:
/// what the ranks tell each other on the host, and the communicator's failure.
///
/// Only the first failure counts, and it stays. Thread-safe.
class Peers {
 public:
  Peers() = default;
  Peers(Peers const&) = delete;
  Peers& operator=(Peers const&) = delete;
  virtual ~Peers() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual std::string const& name() const noexcept = 0;

  /// Returns the value that rank 0 passes. Blocks the other ranks until rank 0 has called it, and
  /// throws PeerLost if it does not within the timeout.
  [[nodiscard]] virtual std::string share(std::string const& value_of_first) = 0;

  /// Returns the texts that all ranks pass, in the order of the ranks. Blocks until all ranks have
  /// called it, and throws the failure, among others PeerLost if a rank does not within the
  /// timeout.
  [[nodiscard]] virtual std::vector<std::string> exchange(std::string const& own) = 0;

  /// Tells that the rank issues a collective. Fails if it does not go together with the others'.
  virtual void announce(Part const& part) = 0;
  /// Tells that the rank has launched a collective of all ranks. With `waits`, and if the ranks are
  /// threads, returns only when all have launched it. Returns false if they have not within some
  /// seconds, or if the communicator fails.
  virtual bool launched(bool waits) = 0;
  /// Tells whether the rank has collectives in flight, and looks for failures of other ranks.
  virtual void look(bool is_in_flight) = 0;
  /// Fails because no collective in flight has ended within the timeout, with the loss of a rank
  /// that has none in flight.
  virtual void time_out(std::chrono::nanoseconds timeout) = 0;
  /// Fails because a rank is gone, or, with a rank of -1, because collectives differ.
  virtual void lose(int rank, std::string const& why) = 0;
  /// Tells that the rank has ended its communicator: collectives of others that need it fail.
  virtual void leave() = 0;

  [[nodiscard]] virtual bool has_failed() = 0;
  /// Throws the failure, if there is one. `issued` is the collective that is about to be issued, or
  /// null.
  virtual void rethrow_failure(Part const* issued) = 0;
};

/// The peers of a rank that is a process.
class PeersOfProcesses : public Peers {
 public:
  bool launched(bool /*waits*/) override { return true; }
  /// Fails because a rank that a collective needs has closed its connection.
  virtual void lose_connection(int rank, Part const& part) = 0;
};

/// Tells who notices that a rank has ended its communicator while others need it: the peers, by
/// looking for a second while a collective of theirs is in flight, or the transport.
enum class LeftRanks : std::uint8_t { found_by_looking, found_by_transport };

class MeetingPlace;

/// Returns the peers of a rank that is a thread of this process.
[[nodiscard]] std::shared_ptr<Peers> make_thread_peers(std::shared_ptr<MeetingPlace> place,
                                                       int rank,
                                                       std::chrono::nanoseconds timeout);
class ProcessStore;

/// Returns the peers of a rank that is a process, when all ranks make a communicator of this name.
/// The n-th communicators of a name belong together. Throws PeerLost if a rank does not come within
/// the timeout.
[[nodiscard]] std::shared_ptr<PeersOfProcesses> make_process_peers(
    std::shared_ptr<ProcessStore> process,
    World const& world,
    std::string const& name,
    std::chrono::nanoseconds timeout,
    std::source_location made_at,
    LeftRanks left_ranks = LeftRanks::found_by_looking);
/// Returns the store that the processes share. Throws std::invalid_argument if the environment does
/// not say where it is, and PeerLost if rank 0 does not serve it within the timeout.
[[nodiscard]] std::shared_ptr<ProcessStore> store_of_this_process(World const& world,
                                                                  std::string const& name,
                                                                  std::chrono::nanoseconds timeout);

}  // namespace msstream::comm::detail
