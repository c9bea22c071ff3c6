// SPDX-License-Identifier: Apache-2.0
#include "comm/environment.hpp"
#include "comm/group.hpp"
#include "comm/world_access.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace msstream::comm {
namespace detail {
namespace {

/// The most ranks that a launcher's variables may name.
constexpr int kMostRanks = 1 << 20;

/// The variables in which one launcher tells a rank its place.
struct LauncherVariables {
  World::Launch launch;
  char const* rank;
  char const* size;
  char const* local_rank;
  /// Whether the variable of the size alone says that the launcher has started this process.
  bool size_tells;
};

// A shell inside an allocation of Slurm has the number of tasks, and is none of them.
constexpr LauncherVariables kTorchrun{
    World::Launch::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", true};
constexpr LauncherVariables kMpiLaunchers[] = {
    {World::Launch::mpirun,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     true},
    {World::Launch::mpirun, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", true}};
constexpr LauncherVariables kSlurm{
    World::Launch::slurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", false};

/// Returns the number that a text is; nothing if it is none.
[[nodiscard]] std::optional<int> number_in(std::string_view text) {
  int number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

/// Returns the number that a variable holds. Throws std::invalid_argument unless it is within
/// [least, most].
[[nodiscard]] int number_of(
    Variables const& variables, char const* variable, int least, int most, std::string_view bound) {
  auto const text = variables(variable);
  auto const number = number_in(text);
  require(number && *number >= least && *number <= most,
          "{}: expected a number from {} to {}{}, found '{}'",
          variable,
          least,
          most,
          bound,
          text);
  return *number;
}

[[nodiscard]] bool is_set(Variables const& variables, char const* variable) {
  return !variables(variable).empty();
}

/// Returns the world that the variables of a launcher describe; nothing if they are not set.
[[nodiscard]] std::optional<World> world_of_launcher(Variables const& variables,
                                                     LauncherVariables const& of) {
  bool const has_rank = is_set(variables, of.rank);
  bool const has_size = is_set(variables, of.size);
  if (!has_rank && !(has_size && of.size_tells)) {
    return std::nullopt;
  }
  require(has_rank, "{} is set to '{}', and {} is not set", of.size, variables(of.size), of.rank);
  require(has_size, "{} is set to '{}', and {} is not set", of.rank, variables(of.rank), of.size);
  int const size = number_of(variables, of.size, 1, kMostRanks, "");
  auto const bound = fmt::format(" ({} is {})", of.size, size);
  int const rank = number_of(variables, of.rank, 0, size - 1, bound);
  if (!is_set(variables, of.local_rank)) {
    require(size == 1,
            "{} is set to {}, and {} is not set: expected the rank among those of this machine",
            of.size,
            size,
            of.local_rank);
    return WorldAccess::make(rank, size, 0, of.launch);
  }
  int const local = number_of(variables, of.local_rank, 0, size - 1, bound);
  return WorldAccess::make(rank, size, local, of.launch);
}

[[nodiscard]] std::optional<World> world_of_mpi(Variables const& variables,
                                                LauncherVariables const** found) {
  for (auto const& launcher : kMpiLaunchers) {
    // With `srun --mpi=pmi2`, PMI_RANK and PMI_SIZE are set, and the local rank is Slurm's.
    bool const is_of_slurm =
        !is_set(variables, launcher.local_rank) && is_set(variables, kSlurm.rank);
    if (is_of_slurm) {
      continue;
    }
    if (auto world = world_of_launcher(variables, launcher)) {
      *found = &launcher;
      return world;
    }
  }
  return std::nullopt;
}

/// Returns whether torchrun itself has set its variables. It may have been started by another
/// launcher, once for each machine: the variables of its workers then rightly differ.
[[nodiscard]] bool is_by_torchrun(Variables const& variables) {
  return is_set(variables, "TORCHELASTIC_RUN_ID") || is_set(variables, "GROUP_RANK");
}

/// Throws std::invalid_argument if the rank and size of torchrun's variables are not those of
/// mpirun's.
void require_agreement(Variables const& variables,
                       World const& torch,
                       World const& mpi,
                       LauncherVariables const& mpi_variables) {
  bool const is_same = torch.rank() == mpi.rank() && torch.size() == mpi.size();
  require(is_same || is_by_torchrun(variables) || mpi.size() == 1,
          "RANK is {} of WORLD_SIZE {}, but {} is {} of {} {}: expected equal numbers, or the "
          "variables of one launcher",
          torch.rank(),
          torch.size(),
          mpi_variables.rank,
          mpi.rank(),
          mpi_variables.size,
          mpi.size());
}

/// Throws std::invalid_argument if torchrun's variables are those of rank 0, Slurm has started as
/// many tasks as they count, and this task is another one, with another local rank: a shell has
/// exported one RANK and LOCAL_RANK to all tasks. Else the ranks may be in another order than the
/// tasks, as if they are counted machine by machine, and tasks dealt out to the machines by turns.
/// Other numbers of tasks start launchers of their own, once for each machine.
void require_agreement_with_slurm(Variables const& variables, World const& torch) {
  auto const task = number_in(variables(kSlurm.rank));
  auto const tasks = number_in(variables(kSlurm.size));
  auto const local = number_in(variables(kSlurm.local_rank));
  // Variables of Slurm that are no numbers of tasks say nothing: those of torchrun suffice.
  auto const is_task = [&](auto const& number) {
    return number && tasks && *number >= 0 && *number < *tasks;
  };
  if (is_by_torchrun(variables) || !is_task(task) || !is_task(local)) {
    return;
  }
  bool const is_exported =
      torch.rank() == 0 && *tasks == torch.size() && *task != 0 && *local != torch.local_rank();
  require(!is_exported,
          "RANK is 0 of WORLD_SIZE {}, and LOCAL_RANK is {}, but {} is {} of {} {}, and {} is {}: "
          "expected a RANK and a LOCAL_RANK of each task, or none",
          torch.size(),
          torch.local_rank(),
          kSlurm.rank,
          *task,
          kSlurm.size,
          *tasks,
          kSlurm.local_rank,
          *local);
}

}  // namespace

World world_of(Variables const& variables) {
  auto const torch = world_of_launcher(variables, kTorchrun);
  LauncherVariables const* mpi_variables = nullptr;
  auto const mpi = world_of_mpi(variables, &mpi_variables);
  if (torch) {
    if (mpi) {
      require_agreement(variables, *torch, *mpi, *mpi_variables);
    } else {
      require_agreement_with_slurm(variables, *torch);
    }
    return *torch;
  }
  if (mpi) {
    return *mpi;
  }
  return world_of_launcher(variables, kSlurm).value_or(World());
}

FindProcesses& find_processes() noexcept {
  static FindProcesses find = nullptr;
  return find;
}

}  // namespace detail

World World::from_environment() {
  auto const world = detail::world_of([](char const* variable) { return env::value_of(variable); });
  bool const is_of_mpi = world.launch() == Launch::mpirun || world.launch() == Launch::slurm;
  auto const find = detail::find_processes();
  bool const finds =
      find != nullptr && is_of_mpi && world.size() > 1 && env::value_of("MASTER_ADDR").empty();
  return finds ? find(world) : world;
}

std::string_view name_of(World::Launch launch) {
  switch (launch) {
    case World::Launch::alone:
      return "alone";
    case World::Launch::threads:
      return "threads";
    case World::Launch::torchrun:
      return "torchrun";
    case World::Launch::mpirun:
      return "mpirun";
    case World::Launch::slurm:
      return "slurm";
  }
  return "unknown";
}

std::string to_string(World const& world) {
  auto const& group = detail::WorldAccess::group(world);
  return fmt::format("rank {} of {} ({}{}, local rank {})",
                     world.rank(),
                     world.size(),
                     group == nullptr ? std::string()
                                      : fmt::format("rank {} of the whole world, ",
                                                    detail::rank_in_whole(group, world.rank())),
                     name_of(world.launch()),
                     world.local_rank());
}

}  // namespace msstream::comm
