// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/comm/reduction.hpp>
#include <msstream/memory/detail/any_device.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::comm {

class World;

}  // namespace msstream::comm

namespace msstream::comm::detail {

using msstream::detail::AnyTensor;

class CommunicatorState;

/// See CommunicatorOptions.
struct CommunicatorSettings {
  std::string name;
  std::chrono::nanoseconds timeout;
  StreamPriority priority = StreamPriority::normal;
  int most_sms = 0;
  bool copy_engines = false;
  bool peer_access = true;
};

/// The implementation of Communicator<R>, compiled once for all runtimes.
class AnyCommunicator {
 public:
  AnyCommunicator(msstream::detail::AnyDevice const& device,
                  World const& world,
                  CommunicatorSettings const& options,
                  std::source_location made_at);

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] std::string const& name() const noexcept;
  [[nodiscard]] std::shared_ptr<msstream::detail::StreamGroup> const& group() const noexcept;
  void synchronize() const;
  /// Returns the texts that all ranks pass, in the order of the ranks. Blocks the host until all
  /// ranks have called it, not for any device, and may be called inside a capture. Throws the
  /// failure of the communicator.
  [[nodiscard]] std::vector<std::string> exchange(std::string const& own) const;
  /// Ends the communicator, in the middle of something that its ranks do together and that this one
  /// cannot go on with: collectives of all ranks fail with PeerLost, which names this rank and the
  /// reason. Does nothing if there is one rank.
  void give_up(std::string const& why) const;
  [[nodiscard]] CommunicatorState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<CommunicatorState> state_;
};

[[nodiscard]] AnyTensor symmetric_tensor(AnyCommunicator const& communicator,
                                         DType dtype,
                                         Shape const& shape);
/// Returns whether a collective whose output has so many bytes is faster into a symmetric tensor,
/// and the calling thread may make one: it does not capture. The same on all ranks.
[[nodiscard]] bool may_make_symmetric(AnyCommunicator const& communicator, std::size_t bytes);

// The implementations of the collectives, compiled once for all runtimes and element types.

order::Position all_reduce(AnyCommunicator const& communicator,
                           AnyTensor const& tensor,
                           Reduction reduction,
                           std::source_location issued_at);
order::Position reduce_scatter(AnyCommunicator const& communicator,
                               AnyTensor const& input,
                               AnyTensor const& output,
                               Reduction reduction,
                               std::source_location issued_at);
order::Position all_gather(AnyCommunicator const& communicator,
                           AnyTensor const& input,
                           AnyTensor const& output,
                           std::source_location issued_at);
order::Position all_to_all(AnyCommunicator const& communicator,
                           AnyTensor const& input,
                           AnyTensor const& output,
                           std::source_location issued_at);
order::Position all_to_all(AnyCommunicator const& communicator,
                           AnyTensor const& input,
                           AnyTensor const& counts,
                           AnyTensor const& output,
                           AnyTensor const& received,
                           std::source_location issued_at);
order::Position broadcast(AnyCommunicator const& communicator,
                          AnyTensor const& tensor,
                          int root,
                          std::source_location issued_at);
order::Position send(AnyCommunicator const& communicator,
                     AnyTensor const& tensor,
                     int to,
                     std::source_location issued_at);
order::Position receive(AnyCommunicator const& communicator,
                        AnyTensor const& tensor,
                        int from,
                        std::source_location issued_at);
order::Position barrier(AnyCommunicator const& communicator, std::source_location issued_at);

}  // namespace msstream::comm::detail
