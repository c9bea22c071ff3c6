// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/world.hpp>

#include <memory>
#include <utility>

namespace msstream::comm::detail {

/// Makes worlds, and reads what users of World do not see.
struct WorldAccess {
  [[nodiscard]] static World make(int rank,
                                  int size,
                                  int local_rank,
                                  World::Launch launch,
                                  std::shared_ptr<ThreadWorld> threads = nullptr) {
    World world;
    world.rank_ = rank;
    world.size_ = size;
    world.local_rank_ = local_rank;
    world.launch_ = launch;
    world.threads_ = std::move(threads);
    return world;
  }
  /// Makes the world of a process that has a connection to the store of its ranks.
  [[nodiscard]] static World make(int rank,
                                  int size,
                                  int local_rank,
                                  World::Launch launch,
                                  std::shared_ptr<ProcessStore> processes) {
    auto world = make(rank, size, local_rank, launch);
    world.processes_ = std::move(processes);
    return world;
  }
  /// Returns the world of a group of the ranks, in which the rank has another number.
  [[nodiscard]] static World in_group(World world, int rank, std::shared_ptr<Group const> group);
  /// Returns what the ranks share if they are threads of this process; otherwise null.
  [[nodiscard]] static std::shared_ptr<ThreadWorld> const& threads(World const& world) noexcept {
    return world.threads_;
  }
  /// Returns the store that the ranks share if they are processes that have found each other
  /// already; otherwise null.
  [[nodiscard]] static std::shared_ptr<ProcessStore> const& processes(World const& world) noexcept {
    return world.processes_;
  }
  /// Returns the ranks of the world, if split() has made it; otherwise null.
  [[nodiscard]] static std::shared_ptr<Group const> const& group(World const& world) noexcept {
    return world.group_;
  }
};

}  // namespace msstream::comm::detail
