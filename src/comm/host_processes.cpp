// SPDX-License-Identifier: Apache-2.0
#include "comm/host_processes.hpp"

#include "comm/carry_out.hpp"
#include "comm/peers_transport.hpp"

#include <msstream/base/closure.hpp>
#include <msstream/base/dtype.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace msstream::comm::detail {
namespace {

/// The description of a collective that a rank sends to another one in front of its elements.
struct Head {
  Collective what;
  std::int64_t rows = 0;         ///< of all_to_all_counted, for that rank
  std::array<char, 400> text{};  ///< the collective and its place, for messages
};
static_assert(std::is_trivially_copyable_v<Head>);

[[nodiscard]] Head head_of(Part const& part) {
  Head head;
  std::memset(static_cast<void*>(&head), 0, sizeof(head));  // the padding goes over the network
  head.what = part.what;
  auto const text = to_string(part);
  std::copy_n(text.begin(), std::min(text.size(), head.text.size() - 1), head.text.begin());
  return head;
}

[[nodiscard]] std::span<std::byte const> bytes_at(void const* memory,
                                                  std::size_t first,
                                                  std::size_t count) {
  return count == 0 ? std::span<std::byte const>()
                    : std::span(static_cast<std::byte const*>(memory) + first, count);
}
[[nodiscard]] std::span<std::byte> bytes_at(void* memory, std::size_t first, std::size_t count) {
  return count == 0 ? std::span<std::byte>()
                    : std::span(static_cast<std::byte*>(memory) + first, count);
}

/// Carries collectives out one after the other, as the communicator's streams issue them: ranks
/// tell each other what they have, and then exchange the elements.
class HostProcesses final : public PeersTransport<PeersOfProcesses> {
 public:
  HostProcesses(std::shared_ptr<msstream::detail::Backend> runtime,
                std::shared_ptr<PeersOfProcesses> peers,
                MeshAddress const& address,
                std::chrono::nanoseconds timeout)
      : PeersTransport(std::move(peers), timeout), runtime_(std::move(runtime)) {
    try {
      mesh_.emplace(*peers_, address, timeout);
    } catch (std::exception const& error) {
      if (!peers_->has_failed()) {
        peers_->lose(peers_->rank(), error.what());
      }
      throw;
    }
  }

  void put(msstream::detail::NativeStream stream,
           Part const& part,
           std::shared_ptr<Transport> const& self) override {
    peers_->announce(part);
    runtime_->call_host(stream, Closure([self, this, part] { meet(part); }));
  }
  void leave() noexcept override {
    tell_left();
    mesh_.reset();
  }
  void abandon(std::string const& why) noexcept override { tell_abandoned(why); }
  /// Only the wait for other ranks counts against the timeout, and not that for own work in front
  /// of a collective.
  void watch(bool is_in_flight, std::chrono::nanoseconds /*stalled*/) noexcept override {
    try {
      peers_->look(is_in_flight);
      if (mesh_ && mesh_->waiting_for() >= timeout_ && !peers_->has_failed()) {
        peers_->time_out(timeout_);
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): the next call looks again
    }
  }

 private:
  /// A rank that a collective needs, its head, and the bytes that have come from it.
  struct Other {
    int rank;
    Head own;
    Head head{};
    std::vector<std::byte> received{};
  };

  /// Throws nothing: an exception would make the stream useless.
  void meet(Part const& part) noexcept {
    try {
      carry_out(part);
    } catch (ProcessMesh::Closed const& closed) {
      try {
        peers_->lose_connection(closed.rank, part);
      } catch (...) {  // NOLINT(bugprone-empty-catch): the failure of the peers is told
      }
    } catch (std::exception const& error) {
      peers_->lose(peers_->rank(), error.what());
    }
  }

  void carry_out(Part const& part) {
    if (!mesh_) {
      peers_->lose(peers_->rank(), "it has ended its communicator");
    }
    if (peers_->has_failed() || !has_sound_counts(part)) {
      return;
    }
    std::vector<Other> others;
    for (int rank = 0; rank < peers_->size(); ++rank) {
      if (rank != peers_->rank() && needs(part.what, rank)) {
        others.push_back({rank, head_of(part)});
        others.back().own.rows = part.counts != nullptr ? part.counts[rank] : 0;
      }
    }
    if (exchange_heads(part, others) && exchange_elements(part, others)) {
      finish(part, others);
    }
  }

  [[nodiscard]] bool has_sound_counts(Part const& part) {
    for (int rank = 0; part.counts != nullptr && rank < peers_->size(); ++rank) {
      auto const count = part.counts[rank];
      if (count < 0 || count > part.what.capacity) {
        peers_->lose(-1,
                     fmt::format("rank {} has {}: its count for rank {} is {}, outside [0, {}]",
                                 peers_->rank(),
                                 to_string(part),
                                 rank,
                                 count,
                                 part.what.capacity));
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool exchange_heads(Part const& part, std::vector<Other>& others) {
    std::vector<ProcessMesh::Transfer> transfers;
    for (auto& other : others) {
      transfers.push_back({other.rank,
                           bytes_at(static_cast<void const*>(&other.own), 0, sizeof(Head)),
                           bytes_at(static_cast<void*>(&other.head), 0, sizeof(Head))});
    }
    if (!mesh_->exchange(std::move(transfers))) {
      return false;
    }
    for (auto const& other : others) {
      if (!agree(part.what, other.head.what) || !needs(other.head.what, peers_->rank())) {
        std::string const own = to_string(part);
        std::string const theirs(other.head.text.data());
        bool const is_first = peers_->rank() < other.rank;
        peers_->lose(-1,
                     fmt::format("rank {} has {}, and rank {} has {}",
                                 std::min(peers_->rank(), other.rank),
                                 is_first ? own : theirs,
                                 std::max(peers_->rank(), other.rank),
                                 is_first ? theirs : own));
        return false;
      }
    }
    return true;
  }

  /// Returns the part of the input that goes to a rank.
  [[nodiscard]] std::span<std::byte const> outgoing(Part const& part, Other const& other) const {
    auto const slice = [&](std::size_t bytes, std::size_t used) {
      return bytes_at(part.input, static_cast<std::size_t>(other.rank) * bytes, used);
    };
    auto const bytes = bytes_of(part.what);
    switch (part.what.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::all_gather:
      case CollectiveKind::send:
        return bytes_at(part.input, 0, bytes);
      case CollectiveKind::reduce_scatter:
        return slice(bytes, bytes);
      case CollectiveKind::all_to_all:
        return slice(slice_bytes(part), slice_bytes(part));
      case CollectiveKind::all_to_all_counted:
        return slice(slice_bytes(part), row_bytes(part) * static_cast<std::size_t>(other.own.rows));
      case CollectiveKind::broadcast:
        return bytes_at(part.input, 0, peers_->rank() == part.what.peer ? bytes : 0);
      case CollectiveKind::receive:
      case CollectiveKind::barrier:
        break;
    }
    return {};
  }
  /// Returns how many bytes come from a rank.
  [[nodiscard]] std::size_t incoming(Part const& part, Other const& other) const {
    switch (part.what.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::all_gather:
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::receive:
        return bytes_of(part.what);
      case CollectiveKind::all_to_all:
        return slice_bytes(part);
      case CollectiveKind::all_to_all_counted:
        return row_bytes(part) * static_cast<std::size_t>(other.head.rows);
      case CollectiveKind::broadcast:
        return other.rank == part.what.peer ? bytes_of(part.what) : 0;
      case CollectiveKind::send:
      case CollectiveKind::barrier:
        break;
    }
    return 0;
  }
  [[nodiscard]] static std::size_t bytes_of(Collective const& what) {
    return static_cast<std::size_t>(what.count) * msstream::bytes_of(what.dtype);
  }
  /// Returns the bytes of one rank's part of the input of an all_to_all.
  [[nodiscard]] std::size_t slice_bytes(Part const& part) const {
    return bytes_of(part.what) / static_cast<std::size_t>(peers_->size());
  }
  [[nodiscard]] std::size_t row_bytes(Part const& part) const {
    auto const rows = static_cast<std::size_t>(part.what.capacity);
    return rows == 0 ? 0 : slice_bytes(part) / rows;
  }

  [[nodiscard]] bool exchange_elements(Part const& part, std::vector<Other>& others) {
    std::vector<ProcessMesh::Transfer> transfers;
    for (auto& other : others) {
      other.received.resize(incoming(part, other));
      transfers.push_back({other.rank, outgoing(part, other), other.received});
    }
    return mesh_->exchange(std::move(transfers));
  }

  /// Makes the output of this rank's input and of what has come.
  void finish(Part const& part, std::vector<Other> const& others) const {
    auto const own = static_cast<std::size_t>(peers_->rank());
    auto const place = [&](std::size_t rank, std::size_t bytes, std::span<std::byte const> from) {
      auto* const to = static_cast<std::byte*>(part.output) + rank * bytes;
      if (!from.empty() && to != from.data()) {  // an input may be a part of the output
        std::memcpy(to, from.data(), from.size());
      }
    };
    auto const slice = slice_bytes(part);
    switch (part.what.kind) {
      case CollectiveKind::all_reduce:
        return reduce(part, part.input, others);
      case CollectiveKind::reduce_scatter:
        return reduce(part, bytes_at(part.input, own * bytes_of(part.what), 1).data(), others);
      case CollectiveKind::all_gather:
        place(own, bytes_of(part.what), bytes_at(part.input, 0, bytes_of(part.what)));
        for (auto const& other : others) {
          place(static_cast<std::size_t>(other.rank), other.received.size(), other.received);
        }
        return;
      case CollectiveKind::all_to_all:
        place(own, slice, bytes_at(part.input, own * slice, slice));
        break;
      case CollectiveKind::all_to_all_counted: {
        auto const rows = part.counts[own];
        part.received[own] = rows;
        place(own,
              slice,
              bytes_at(part.input, own * slice, row_bytes(part) * static_cast<std::size_t>(rows)));
        for (auto const& other : others) {
          part.received[other.rank] = other.head.rows;
        }
        break;
      }
      case CollectiveKind::broadcast:
      case CollectiveKind::receive:
        for (auto const& other : others) {
          place(0, 0, other.received);
        }
        return;
      case CollectiveKind::send:
      case CollectiveKind::barrier:
        return;
    }
    for (auto const& other : others) {
      place(static_cast<std::size_t>(other.rank), slice, other.received);
    }
  }
  void reduce(Part const& part, void const* own, std::vector<Other> const& others) const {
    std::vector<void const*> inputs(static_cast<std::size_t>(peers_->size()), own);
    for (auto const& other : others) {
      inputs[static_cast<std::size_t>(other.rank)] = other.received.data();
    }
    combine_inputs(part.what, inputs, part.output);
  }

  std::shared_ptr<msstream::detail::Backend> runtime_;
  std::optional<ProcessMesh> mesh_;  ///< used by one collective at a time
};

}  // namespace

std::shared_ptr<Transport> make_host_processes(std::shared_ptr<msstream::detail::Backend> runtime,
                                               std::shared_ptr<PeersOfProcesses> peers,
                                               MeshAddress const& address,
                                               std::chrono::nanoseconds timeout) {
  return std::make_shared<HostProcesses>(std::move(runtime), std::move(peers), address, timeout);
}

}  // namespace msstream::comm::detail
