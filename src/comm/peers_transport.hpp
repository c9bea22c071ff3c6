// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/peers.hpp"
#include "comm/transport.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm::detail {

/// The base of transports whose ranks learn of each other by Peers: NCCL's, and that of processes
/// on the host.
template <class PeersOfRank>
class PeersTransport : public Transport {
 public:
  PeersTransport(std::shared_ptr<PeersOfRank> peers, std::chrono::nanoseconds timeout)
      : peers_(std::move(peers)), timeout_(timeout) {}

  [[nodiscard]] std::vector<std::string> exchange(std::string const& own) final {
    return peers_->exchange(own);
  }
  void rethrow_failure(Part const* issued) final {
    notice_failures();
    peers_->rethrow_failure(issued);
  }
  [[nodiscard]] bool has_failure_to_tell() final {
    notice_failures();
    return peers_->has_failed() && !is_told_by_exception_.load();
  }
  [[nodiscard]] std::chrono::nanoseconds watch_interval() const noexcept final {
    return std::clamp<std::chrono::nanoseconds>(
        timeout_ / 20, std::chrono::milliseconds(10), std::chrono::milliseconds(100));
  }

 protected:
  /// Tells the peers of a failure that the device has found, if there is one.
  virtual void notice_failures() {}
  void tell_left() noexcept {
    try {
      peers_->leave();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the other ranks notice by themselves
    }
  }
  void tell_abandoned(std::string const& why) noexcept {
    is_told_by_exception_.store(true);
    try {
      peers_->lose(peers_->rank(), why);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the other ranks notice by themselves
    }
  }

  std::shared_ptr<PeersOfRank> const peers_;
  std::chrono::nanoseconds const timeout_;
  /// Whether an exception on this rank has told what its failure is about. That another rank has
  /// named this one as lost is no such case.
  std::atomic<bool> is_told_by_exception_{false};
};

}  // namespace msstream::comm::detail
