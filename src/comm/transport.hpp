// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/collective.hpp"

#include <msstream/runtime/detail/backend.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace msstream::comm::detail {

/// The way in which the collectives of one communicator are carried out on one rank. Shared by the
/// communicator and its collectives in flight. Thread-safe.
class Transport {
 public:
  Transport() = default;
  Transport(Transport const&) = delete;
  Transport& operator=(Transport const&) = delete;
  virtual ~Transport() = default;

  /// Puts one rank's part of a collective on a stream. `self` is this transport. Does not block.
  virtual void put(msstream::detail::NativeStream stream,
                   Part const& part,
                   std::shared_ptr<Transport> const& self) = 0;
  /// Returns what a captured graph with this transport's collectives has to keep until it is
  /// destroyed, if anything.
  [[nodiscard]] virtual std::shared_ptr<void const> share_with_graph() { return nullptr; }
  /// Returns the texts that all ranks pass, in the order of the ranks. Blocks the host until all
  /// ranks have called it; throws the failure of the communicator.
  [[nodiscard]] virtual std::vector<std::string> exchange(std::string const& own) = 0;
  /// Returns memory of the device that the GPUs of all ranks reach, or null if memory of any
  /// kind serves the collectives as well. All ranks call it alike, and it blocks the host until
  /// they have. `self` is this transport.
  [[nodiscard]] virtual std::shared_ptr<void> symmetric_memory(
      std::size_t /*bytes*/, std::shared_ptr<Transport> const& /*self*/) {
    return nullptr;
  }
  /// Returns whether a collective whose output has so many bytes is faster into symmetric memory.
  [[nodiscard]] virtual bool gains_by_symmetry(std::size_t /*bytes*/) const noexcept {
    return false;
  }
  /// Throws the failure of the communicator, if there is one. `issued` is the collective that is
  /// about to be issued, if any, for a message that else would name none.
  virtual void rethrow_failure(Part const* issued) = 0;
  /// Returns whether the communicator has failed, other than by the loss of this rank itself.
  [[nodiscard]] virtual bool has_failure_to_tell() = 0;
  /// Tells the other ranks that this one issues no collectives any more. Called once, when all
  /// collectives are complete.
  virtual void leave() noexcept = 0;
  /// Tells the other ranks that this one takes part no more, and why: they must not wait for it.
  /// Its collectives in flight end.
  virtual void abandon(std::string const& why) noexcept = 0;

  /// Returns how often a thread has to call watch(); 0: never.
  [[nodiscard]] virtual std::chrono::nanoseconds watch_interval() const noexcept { return {}; }
  /// Ends the collectives in flight if the communicator has failed. Calls nothing that may wait for
  /// them first.
  virtual void end_if_failed() noexcept {}
  /// Looks for failures of other ranks. `is_in_flight`: whether collectives of this rank are in
  /// flight; `stalled`: for how long none of them has ended.
  virtual void watch(bool /*is_in_flight*/, std::chrono::nanoseconds /*stalled*/) noexcept {}
};

/// Returns the transport of a world with one rank, whose collectives are copies on the device.
[[nodiscard]] std::shared_ptr<Transport> make_copies(
    std::shared_ptr<msstream::detail::Backend> runtime);

}  // namespace msstream::comm::detail
