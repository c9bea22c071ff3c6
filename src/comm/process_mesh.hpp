// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/peers.hpp"
#include "comm/sockets/sockets.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace msstream::comm::detail {

/// The addresses at which processes reach each other.
struct MeshAddress {
  std::string own;            ///< of this process, as the store sees it
  std::string host_of_store;  ///< the host of rank 0, for ranks whose own address is local to it
};

/// Connections from this process to those of all other ranks of a communicator. All processes must
/// be of one program, on machines of one byte order. Not thread-safe.
class ProcessMesh {
 public:
  /// The bytes that go to another rank, and those that come from it.
  struct Transfer {
    int rank;
    std::span<std::byte const> to_send;
    std::span<std::byte> to_receive;
  };
  /// Thrown if a rank closes its connection while something is to go or to come.
  struct Closed {
    int rank;
  };

  /// Connects all ranks, which call it together. Throws PeerLost if a rank does not come, or cannot
  /// be reached, within the timeout.
  ProcessMesh(PeersOfProcesses& peers,
              MeshAddress const& address,
              std::chrono::nanoseconds timeout);

  /// Sends and receives all bytes; returns false if the communicator has failed meanwhile. Throws
  /// Closed.
  [[nodiscard]] bool exchange(std::vector<Transfer> transfers);
  /// Returns for how long no byte has come or gone in an exchange that is in progress; 0 if there
  /// is none. Thread-safe.
  [[nodiscard]] std::chrono::nanoseconds waiting_for() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] Socket connected(int rank,
                                 std::string const& host,
                                 int port,
                                 Clock::time_point deadline);
  [[nodiscard]] Socket accepted(Socket const& listener,
                                std::string const& token,
                                Clock::time_point deadline,
                                int& rank);

  PeersOfProcesses& peers_;
  std::vector<Socket> sockets_;  ///< by rank; none for this one
  /// The time of the last progress of an exchange in progress, in the clock's units; 0 if none is.
  std::atomic<Clock::rep> progress_at_ = 0;
};

}  // namespace msstream::comm::detail
