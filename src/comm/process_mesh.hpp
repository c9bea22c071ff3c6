// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/peers.hpp"
#include "comm/sockets.hpp"

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace msstream::comm::detail {

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

  /// Connects all ranks, which call it together. `own_address` is where other machines reach this
  /// process. Throws PeerLost if a rank does not come within the timeout, and std::runtime_error,
  /// naming the rank and its address, if it cannot be reached.
  ProcessMesh(PeersOfProcesses& peers,
              std::string const& own_address,
              std::chrono::nanoseconds timeout);

  /// Sends and receives all bytes; returns false if the communicator has failed meanwhile. Throws
  /// Closed.
  [[nodiscard]] bool exchange(std::vector<Transfer> transfers);

 private:
  [[nodiscard]] Socket accepted(Socket const& listener,
                                std::string const& token,
                                std::chrono::steady_clock::time_point deadline,
                                int& rank);

  PeersOfProcesses& peers_;
  std::vector<Socket> sockets_;  ///< by rank; none for this one
};

}  // namespace msstream::comm::detail
