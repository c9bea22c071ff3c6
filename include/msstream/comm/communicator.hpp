// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/env.hpp>
#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/stream_group.hpp>

#include <chrono>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm {

/// Reports that the ranks' collectives do not go together: they differ in kind, elements, type,
/// reduction, root or order. The message has the collectives of two ranks, with their lines.
class CollectiveError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

struct CommunicatorOptions {
  /// The name by which the ranks' communicators find each other, and which messages and traces
  /// show. Ranks may make communicators of different names in any order, on threads of their own.
  std::string name = "world";
  /// How long a rank waits for the others in the constructor and in each collective.
  std::chrono::nanoseconds timeout =
      std::chrono::seconds(env::integer("MSSTREAM_COMM_TIMEOUT_S", 30, 1, 1'000'000));
  /// The priority of the communicator's stream. With high, blocks of NCCL's kernels come before
  /// those of other work that wait for a multiprocessor.
  StreamPriority priority = StreamPriority::normal;
  /// Between GPUs, the most multiprocessors on which a kernel of a collective runs, 1 to 64, for
  /// NCCL rounded down to a power of two; 0: up to 64, or NCCL chooses.
  /// StreamPoolOptions::spared_sms leaves as many free. The same on all ranks.
  int most_sms = 0;
  /// Between GPUs, whether all-gather and all-to-all into a symmetric_tensor() run on copy engines,
  /// whatever their size, and take next to no multiprocessor. Without peer_access, from symmetric
  /// tensors alone, by NCCL, which must be 2.28, and cannot end such a collective: if a rank is
  /// lost, the others wait for ever. The same on all ranks.
  bool copy_engines = false;
  /// Between GPUs of one host that NVLink connects, at most eight, whether kernels of our own,
  /// which write to the memory of the other GPUs, carry out the collectives for which they are
  /// faster than NCCL. They add in the order of the ranks, and take 12 to 18 MiB of each GPU. Ranks
  /// that are processes must see the GPUs of all. The same on all ranks.
  bool peer_access = env::integer("MSSTREAM_COMM_PEER_ACCESS", 1, 0, 1) != 0;
};

/// One rank's end of the collectives between all ranks of a world, with a stream group of its own.
/// Copies share it.
///
/// All ranks must issue the same collectives to a communicator, in the same order. Collectives of
/// one communicator run one after the other; those of several run at once. A failure (PeerLost or
/// CollectiveError) makes the communicator useless for ever: collectives in flight end without
/// having written anything that may be read, the next call in which the host waits for the device
/// throws the failure once, and every later collective throws it again. The device, its groups, its
/// memory and other communicators stay usable.
///
/// A captured step may have collectives. All ranks must capture and replay it alike, and none may
/// replay it after it has destroyed the communicator.
///
/// Thread-safe; but threads that issue collectives of one communicator at once have no order.
template <Runtime R = DefaultRuntime>
class Communicator {
 public:
  using runtime_type = R;

  /// Blocks the host until all ranks of the world make a communicator of this name. Throws PeerLost
  /// if one does not within the timeout, and std::invalid_argument if the ranks of the world cannot
  /// reach each other. On CUDA, each rank must have a GPU of its own (device_of()), and the build
  /// NCCL. Ranks that are processes find each other at MASTER_ADDR, at the port after MASTER_PORT.
  explicit Communicator(Device<R> const& device,
                        World const& world = {},
                        CommunicatorOptions const& options = {},
                        std::source_location made_at = std::source_location::current())
      : body_(device.engine(),
              world,
              {options.name,
               options.timeout,
               options.priority,
               options.most_sms,
               options.copy_engines,
               options.peer_access},
              made_at) {}

  /// Returns the number of this rank, in [0, size()).
  [[nodiscard]] int rank() const noexcept { return body_.rank(); }
  /// Returns the number of ranks, at least 1.
  [[nodiscard]] int size() const noexcept { return body_.size(); }
  /// Returns CommunicatorOptions::name.
  [[nodiscard]] std::string const& name() const noexcept { return body_.name(); }
  /// Returns the group of the communicator's collectives.
  [[nodiscard]] StreamGroup<R> group() const { return StreamGroup<R>(body_.group()); }

  /// Blocks the host until all collectives issued so far are complete. Throws the communicator's
  /// failure, if there is one, also if another call has thrown it.
  void synchronize() const { body_.synchronize(); }

  /// Returns the texts that all ranks pass, in the order of the ranks. Blocks the host until all
  /// ranks have called it, and not for any device: for what ranks tell each other now and then,
  /// such as their options. May be called inside a capture. Throws the failure of the communicator.
  [[nodiscard]] std::vector<std::string> exchange(std::string const& own) const {
    return body_.exchange(own);
  }

  /// Returns the implementation. For use by the library only.
  [[nodiscard]] detail::AnyCommunicator const& any() const noexcept { return body_; }

 private:
  detail::AnyCommunicator body_;
};

/// Returns a device for the rank. On CUDA, its GPU is the one whose number is the rank's local
/// rank, or the only one that the rank's process sees.
template <Runtime R = DefaultRuntime>
[[nodiscard]] Device<R> device_of(World const& world, DeviceOptions<R> options = {}) {
  if constexpr (requires { options.runtime.ordinal = R::device_count(); }) {
    bool const is_only = world.launch() != World::Launch::threads && R::device_count() == 1;
    options.runtime.ordinal = is_only ? 0 : world.local_rank();
  }
  return Device<R>(options);
}

}  // namespace msstream::comm
