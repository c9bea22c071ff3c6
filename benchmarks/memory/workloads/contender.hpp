// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "counting.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

/// What a contender has to do, and with what.
struct Task {
  int streams = 1;
  std::uint32_t blocks = 1;          ///< have the numbers below
  std::size_t limit_bytes = 0;       ///< 0: none
  std::size_t own_buffer_bytes = 0;  ///< of each block, for those who allocate nothing
  std::chrono::nanoseconds busy{0};  ///< how long each piece of work takes on the device
};

struct BlockUse {
  std::uint32_t block;
  std::size_t bytes;
  int owner;  ///< the stream that it was allocated on
  int user;
};

/// What the allocator of a contender has done.
struct Account {
  std::size_t peak_reserved_bytes = 0;  ///< 0: allocates nothing
  std::uint64_t allocator_ns = 0;       ///< of the host, in allocations and frees
  std::uint64_t wrong_tags = 0;
  /// Of those whose calls can be seen: while a block is allocated and first written, or freed; its
  /// former uses are all that these have to follow.
  std::optional<Calls> by_allocator;
  std::optional<Calls> by_program;  ///< while a block is read by another stream, or the same one
};

/// Memory and order of work, in some way.
///
/// Different streams may be used by different threads; a block is used by one at a time.
class Contender {
 public:
  Contender() = default;
  Contender(Contender const&) = delete;
  Contender& operator=(Contender const&) = delete;
  /// Waits until all work is done.
  virtual ~Contender() = default;

  /// On `use.user`, which is the owner. False: there is no memory.
  [[nodiscard]] virtual bool allocate_and_write(BlockUse const& use) = 0;
  /// Checks on `use.user` what the owner wrote, and frees the block there.
  virtual void check_and_free(BlockUse const& use) = 0;
  /// Blocks the host until all work is done; throws what failed.
  virtual void synchronize() = 0;
  /// When all work is done.
  [[nodiscard]] virtual Account account() const = 0;
};

struct Entrant {
  std::string name;
  bool takes_limit;  ///< a hard one
  /// Whose makespan its own is divided by: the same work issued in the same way, with buffers that
  /// are there from the start. Empty: it is one of those.
  std::string preallocated;
  std::function<std::unique_ptr<Contender>(Task const&)> enter;
};

/// A device with those who contend on it.
struct Arena {
  std::string runtime;
  std::string device;
  std::string version;
  std::vector<Entrant> entrants;
};

[[nodiscard]] Arena host_arena();
#if MSSTREAM_CUDA
[[nodiscard]] Arena cuda_arena();
#endif

}  // namespace benchmarks::workloads
