// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>
#include <msstream/base/detail/env.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

/// Several ranks that train together: how they were started, and collectives between them.
namespace msstream::comm {

namespace detail {

struct Group;
class ProcessStore;
class ThreadWorld;
struct WorldAccess;

}  // namespace detail

/// Reports that a rank is gone: it threw an exception, ended its communicator, or did not come to a
/// collective within the timeout. The message names the rank, the collective and its line.
class PeerLost : public std::runtime_error {
 public:
  /// Makes the error of the loss of a rank, with its number in the communicator's world, and in the
  /// whole world if that is another one.
  PeerLost(int lost_rank, std::string const& message) : PeerLost(lost_rank, lost_rank, message) {}
  PeerLost(int lost_rank, int lost_rank_in_whole, std::string const& message)
      : std::runtime_error(message), rank_(lost_rank), rank_in_whole_(lost_rank_in_whole) {}

  /// Returns the rank that is gone, in the world of the communicator. -1 if it is rank 0 of the
  /// whole world, whose process serves the store by which all processes find each other, and no
  /// rank of the communicator's world.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Returns the number of the rank among all ranks of the program.
  [[nodiscard]] int rank_in_whole() const noexcept { return rank_in_whole_; }

 private:
  int rank_;
  int rank_in_whole_;
};

struct SplitOptions {
  /// Orders the ranks of a new world: the least key is its rank 0. Ranks with equal keys stay in
  /// the order that they have in the world that is split.
  int key = 0;
  /// How long a rank waits for the others.
  std::chrono::nanoseconds timeout =
      std::chrono::seconds(env::integer("MSSTREAM_COMM_TIMEOUT_S", 30, 1, 1'000'000));
};

/// One rank's place among all ranks of a program, or among those of a group of them that split()
/// has made. A value; copies stand for the same rank.
class World {
 public:
  /// The program that started the ranks. alone: none, there is one rank; threads: run_as_threads().
  enum class Launch : std::uint8_t { alone, threads, torchrun, mpirun, slurm };

  /// Makes the world of a program with one rank.
  World() = default;

  /// Reads the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK), otherwise those of mpirun
  /// (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, or PMI_RANK,
  /// PMI_SIZE, MPI_LOCALRANKID), otherwise those of Slurm (SLURM_PROCID, SLURM_NTASKS,
  /// SLURM_LOCALID). Without any of them there is one rank. In a program that links msstream::mpi,
  /// processes of mpirun and Slurm find each other by MPI unless MASTER_ADDR is set: see
  /// world_of_mpi() of <msstream/comm/mpi.hpp>. Throws std::invalid_argument, naming
  /// the variables, if one of a launcher's variables is missing, is not a number or is out of
  /// range, or if RANK and WORLD_SIZE differ from the variables of mpirun and torchrun has not set
  /// them.
  [[nodiscard]] static World from_environment();

  /// Returns the number of this rank, in [0, size()).
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Returns the number of ranks.
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Returns the rank among those of this machine, by which processes choose their GPUs.
  [[nodiscard]] int local_rank() const noexcept { return local_rank_; }
  /// Returns how the ranks were started.
  [[nodiscard]] Launch launch() const noexcept { return launch_; }

  /// Divides the ranks into groups, as MPI_Comm_split does: ranks that pass one color get a world
  /// of their own, in which they count from 0. Communicators of such a world are between its ranks,
  /// whatever names those of other worlds have. local_rank() and launch() stay.
  ///
  /// Blocks the host until all ranks of this world have called it; they call it equally often, and
  /// in the same order. Throws PeerLost if one does not within the timeout, and
  /// std::invalid_argument on all ranks if a color is negative.
  [[nodiscard]] World split(int color,
                            SplitOptions const& options = {},
                            std::source_location called_at = std::source_location::current()) const;
  /// Like split(int). A rank whose color is std::nullopt takes part in the call, and gets no world.
  [[nodiscard]] std::optional<World> split(
      std::optional<int> color,
      SplitOptions const& options = {},
      std::source_location called_at = std::source_location::current()) const;

 private:
  friend struct detail::WorldAccess;

  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  Launch launch_ = Launch::alone;
  std::shared_ptr<detail::ThreadWorld> threads_;  ///< null unless the ranks are threads
  /// The connection to the other processes; null if the first communicator is to make it.
  std::shared_ptr<detail::ProcessStore> processes_;
  std::shared_ptr<detail::Group const> group_;  ///< null unless split() has made the world
};

/// Returns the name of a launch, such as "torchrun".
[[nodiscard]] std::string_view name_of(World::Launch launch);
/// Returns a text such as "rank 2 of 8 (torchrun, local rank 2)", or, for a world that split() has
/// made, "rank 0 of 2 (rank 2 of the whole world, torchrun, local rank 2)".
[[nodiscard]] std::string to_string(World const& world);

using msstream::is_of_msstream;
using msstream::operator<<;

/// Calls `function(world)` for each of `ranks` ranks at once, each on a thread of its own, and
/// waits until all have returned. If a rank throws, all communicators of which it is a rank fail at
/// once with PeerLost, and run_as_threads() throws a PeerLost that names the rank that threw first;
/// its nested exception (std::rethrow_if_nested()) is the exception of that rank. Throws
/// std::invalid_argument if `ranks` is not within 1 to 1,024.
void run_as_threads(int ranks, std::function<void(World const&)> const& function);

}  // namespace msstream::comm
