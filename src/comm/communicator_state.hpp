// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/transport.hpp"
#include "comm/watch.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/memory/detail/any_device.hpp>
#include <msstream/order/detail/position_set.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>
#include <msstream/tensor/detail/any_uses.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::comm::detail {

/// A failure that the device's host waits have to throw once. Shared by a communicator and the list
/// of its device.
struct Told {
  std::shared_ptr<Transport> transport;
  std::atomic<bool> is_told{false};
};

/// The communicator of one rank: its group, its transport, and the order of its collectives.
class CommunicatorState {
 public:
  CommunicatorState(msstream::detail::AnyDevice device,
                    World const& world,
                    CommunicatorSettings const& options,
                    std::source_location made_at);
  CommunicatorState(CommunicatorState const&) = delete;
  CommunicatorState& operator=(CommunicatorState const&) = delete;
  /// Waits for the collectives in flight, then leaves the other ranks. If an exception is the
  /// reason, the others are told before.
  ~CommunicatorState();

  [[nodiscard]] World const& world() const noexcept { return world_; }
  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] std::shared_ptr<msstream::detail::StreamGroup> const& group() const noexcept {
    return group_;
  }
  [[nodiscard]] msstream::detail::AnyDevice const& device() const noexcept { return device_; }

  /// Issues one collective, which reads and writes the tensors of the lists. Throws the failure of
  /// the communicator if it has failed.
  order::Position issue(Part const& part,
                        msstream::detail::AnyUses const* read,
                        msstream::detail::AnyUses& written);
  /// Returns a tensor in memory that collectives of the communicator reach on all ranks; see
  /// symmetric_tensor().
  [[nodiscard]] msstream::detail::AnyTensor symmetric_tensor(DType dtype, Shape const& shape);
  /// See may_make_symmetric().
  [[nodiscard]] bool may_make_symmetric(std::size_t bytes) const;
  /// Treats symmetric tensors of at least so many bytes as faster, whatever the transport says: by
  /// that, tests on the host take the ways of large tensors. All ranks call it alike.
  void set_least_symmetric_bytes(std::size_t bytes) noexcept { least_symmetric_bytes_ = bytes; }
  void synchronize();
  [[nodiscard]] std::vector<std::string> exchange(std::string const& own);
  /// See AnyCommunicator::give_up().
  void give_up(std::string const& why);
  /// Notes the message of an exception for arguments of a collective, which was not issued. If an
  /// exception ends the communicator later, the other ranks are told.
  void note_refusal(std::string const& what);

 private:
  [[nodiscard]] std::string why_it_ends();
  void rethrow_failure(Part const* issued);
  /// Returns the latest collectives, among them those of replays, which the host may wait for.
  [[nodiscard]] order::PositionSet collectives_in_flight() const;
  /// Looks for failures of other ranks. Called by the watch.
  void look() noexcept;

  msstream::detail::AnyDevice device_;
  World world_;
  std::string name_;
  std::shared_ptr<msstream::detail::StreamGroup> group_;
  /// An element that every collective of the communicator writes, so that a replay of captured
  /// collectives is ordered with the others, too.
  msstream::detail::AnyTensor order_;
  /// An element that every captured collective of the device writes. A replay on the host runs one
  /// operation after the other: all ranks must meet in one order, whichever communicators they use.
  std::shared_ptr<msstream::detail::AnyTensor> order_in_captures_;
  std::shared_ptr<Told> told_;
  int exceptions_at_begin_;
  Progress progress_;             ///< used by the watch alone
  std::shared_ptr<Watch> watch_;  ///< null if the transport needs none
  std::mutex mutex_;              ///< protects refused_
  std::string refused_;           ///< see note_refusal()
  std::size_t least_symmetric_bytes_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace msstream::comm::detail
