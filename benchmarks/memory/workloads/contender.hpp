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

/// The parameters of the work that all compared allocators do.
struct Task {
  int streams = 1;
  std::uint32_t blocks = 1;          ///< number of blocks, whose numbers begin at 0
  std::size_t limit_bytes = 0;       ///< limit of the memory; 0: none
  std::size_t own_buffer_bytes = 0;  ///< size of each block if the contender allocates nothing
  std::chrono::nanoseconds busy{0};  ///< time that each piece of work takes on the device
};

struct BlockUse {
  std::uint32_t block;
  std::size_t bytes;
  int owner;  ///< the stream that the block was allocated on
  int user;
};

/// The measurements of one compared allocator.
struct Account {
  std::size_t peak_reserved_bytes = 0;  ///< 0 if it allocates nothing
  std::uint64_t allocator_ns = 0;       ///< host time in allocations and frees
  std::uint64_t wrong_tags = 0;
  /// Runtime calls while a block is allocated and first written, or freed. The only earlier work
  /// that they must wait for is the former uses of the block's memory. Empty if the contender's
  /// calls cannot be observed.
  std::optional<Calls> by_allocator;
  std::optional<Calls> by_program;  ///< while a block is read, on any stream; empty if unobservable
};

/// An allocator under comparison, and the way in which it orders work on its memory.
///
/// Different streams may be used by different threads; a block is used by one thread at a time.
class Contender {
 public:
  Contender() = default;
  Contender(Contender const&) = delete;
  Contender& operator=(Contender const&) = delete;
  /// Waits until all issued work is complete.
  virtual ~Contender() = default;

  /// Allocates a block on the stream `use.user`, which becomes its owner, and writes its tags
  /// there. Returns false if there is no memory.
  [[nodiscard]] virtual bool allocate_and_write(BlockUse const& use) = 0;
  /// Checks the tags of a block on the stream `use.user`, and frees the block there.
  virtual void check_and_free(BlockUse const& use) = 0;
  /// Blocks the host until all issued work is complete. Throws if any of it has failed.
  virtual void synchronize() = 0;
  /// Returns the measurements. To be called when all work is complete.
  [[nodiscard]] virtual Account account() const = 0;
};

struct Entrant {
  std::string name;
  bool takes_limit;  ///< whether it supports a hard limit of its memory
  /// The name of the entrant by whose makespan this one's is divided: an entrant that issues the
  /// same work in the same way with preallocated buffers. Empty if this entrant uses preallocated
  /// buffers itself.
  std::string preallocated;
  std::function<std::unique_ptr<Contender>(Task const&)> enter;
};

/// A device, and the allocators (entrants) that are compared on it.
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
