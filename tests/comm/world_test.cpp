// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/environment.hpp"

#include <msstream/comm/world.hpp>

#include <gmock/gmock.h>

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::testing {
namespace {

using comm::World;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

World world_of(Environment const& environment) {
  return comm::detail::world_of([&](char const* variable) {
    auto const found = environment.find(variable);
    return found != environment.end() ? std::string_view(found->second) : std::string_view();
  });
}

/// Expects that the environment is refused with a message that contains all the words.
template <class... Words>
void expect_bad_environment(Environment const& environment, Words const&... words) {
  EXPECT_THAT(message_of<std::invalid_argument>([&] { static_cast<void>(world_of(environment)); }),
              AllOf(HasSubstr(words)...));
}

Environment const kTorch = {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}};
Environment const kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
Environment const kMpich = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "3"}};
Environment const kSlurm = {{"SLURM_PROCID", "6"}, {"SLURM_NTASKS", "16"}, {"SLURM_LOCALID", "2"}};

Environment both(Environment const& a, Environment const& b) {
  auto all = a;
  all.insert(b.begin(), b.end());
  return all;
}
Environment with(Environment environment, std::string const& variable, std::string const& value) {
  environment[variable] = value;
  return environment;
}
Environment without(Environment environment, std::string const& variable) {
  environment.erase(variable);
  return environment;
}

TEST(World, is_one_rank_without_variables) {
  auto const world = world_of({});
  EXPECT_EQ(world.launch(), World::Launch::alone);
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_rank(), 0);
}

TEST(World, reads_the_variables_of_each_launcher) {
  struct Case {
    Environment environment;
    std::string text;
  };
  for (auto const& [environment, text] : {Case{kTorch, "rank 5 of 8 (torchrun, local rank 1)"},
                                          Case{kOpenMpi, "rank 2 of 4 (mpirun, local rank 0)"},
                                          Case{kMpich, "rank 3 of 4 (mpirun, local rank 3)"},
                                          Case{kSlurm, "rank 6 of 16 (slurm, local rank 2)"}}) {
    EXPECT_EQ(to_string(world_of(environment)), text);
  }
  std::ostringstream written;
  written << world_of(kSlurm);
  EXPECT_EQ(written.str(), "rank 6 of 16 (slurm, local rank 2)");
}

TEST(World, takes_the_innermost_launcher) {
  // mpirun starts its processes by way of Slurm, whose variables then count daemons.
  EXPECT_EQ(world_of(both(kOpenMpi, kSlurm)).launch(), World::Launch::mpirun);
  EXPECT_EQ(world_of(both(kTorch, kSlurm)).launch(), World::Launch::torchrun);
  // mpirun starts torchrun once for each machine.
  auto const both_of_torchrun = with(both(kTorch, kOpenMpi), "TORCHELASTIC_RUN_ID", "none");
  EXPECT_EQ(world_of(both_of_torchrun).rank(), 5);
  // `srun --mpi=pmi2` leaves the local rank to Slurm.
  EXPECT_EQ(world_of(both(without(kMpich, "MPI_LOCALRANKID"), kSlurm)).launch(),
            World::Launch::slurm);
}

TEST(World, is_alone_in_a_shell_of_slurm) {
  EXPECT_EQ(world_of({{"SLURM_NTASKS", "16"}}).launch(), World::Launch::alone);
}

TEST(World, refuses_variables_that_contradict_each_other) {
  expect_bad_environment(both(kTorch, kOpenMpi),
                         "RANK is 5 of WORLD_SIZE 8",
                         "OMPI_COMM_WORLD_RANK is 2 of OMPI_COMM_WORLD_SIZE 4");
  auto const equal = with(with(with(kTorch, "RANK", "2"), "WORLD_SIZE", "4"), "LOCAL_RANK", "0");
  EXPECT_EQ(world_of(both(equal, kOpenMpi)).rank(), 2);
}

// A shell that exports RANK=0 and LOCAL_RANK=0 gives them to all tasks of srun.
TEST(World, refuses_rank_0_on_another_task_of_slurm_with_another_local_rank) {
  auto const of_16 = [](char const* rank) {
    return both(Environment{{"RANK", rank}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "0"}}, kSlurm);
  };
  expect_bad_environment(of_16("0"),
                         "RANK is 0 of WORLD_SIZE 16",
                         "LOCAL_RANK is 0",
                         "SLURM_PROCID is 6 of SLURM_NTASKS 16",
                         "SLURM_LOCALID is 2");
  EXPECT_EQ(world_of(of_16("6")).launch(), World::Launch::torchrun);
  // Each task has a number of its own: the first on its machine, whatever task that is.
  EXPECT_EQ(world_of(with(of_16("0"), "SLURM_LOCALID", "0")).rank(), 0);
  // torchrun counts by itself, and so may what a batch script starts, which is task 0 of all.
  EXPECT_EQ(world_of(with(of_16("0"), "GROUP_RANK", "0")).rank(), 0);
  EXPECT_EQ(world_of(with(of_16("3"), "SLURM_PROCID", "0")).rank(), 3);
}

// `srun -n 8 --distribution=cyclic` deals tasks out to two machines by turns, and the ranks are
// counted machine by machine: RANK=$((SLURM_NODEID * 4 + SLURM_LOCALID)).
TEST(World, takes_ranks_in_another_order_than_the_tasks_of_slurm) {
  for (int task = 0; task < 8; ++task) {
    int const local = task / 2;
    int const rank = task % 2 * 4 + local;
    for (bool const sees_one_gpu : {false, true}) {
      auto const world = world_of({{"RANK", std::to_string(rank)},
                                   {"WORLD_SIZE", "8"},
                                   {"LOCAL_RANK", std::to_string(sees_one_gpu ? 0 : local)},
                                   {"SLURM_PROCID", std::to_string(task)},
                                   {"SLURM_NTASKS", "8"},
                                   {"SLURM_LOCALID", std::to_string(local)}});
      EXPECT_EQ(world.rank(), rank);
      EXPECT_EQ(world.launch(), World::Launch::torchrun);
    }
  }
}

TEST(World, needs_no_sound_variables_of_slurm_beside_those_of_torchrun) {
  auto const all =
      both(kTorch, {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"}});
  for (auto const* const variable : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}) {
    for (auto const* const bad : {"x", "-1", "9", "4(x2)", "99999999999999999999"}) {
      EXPECT_EQ(world_of(with(all, variable, bad)).rank(), 5) << variable << "=" << bad;
      auto const of_rank_0 = with(with(all, "RANK", "0"), "LOCAL_RANK", "1");
      EXPECT_EQ(world_of(with(with(of_rank_0, "SLURM_LOCALID", "1"), variable, bad)).size(), 8);
    }
  }
}

TEST(World, refuses_variables_without_the_others) {
  expect_bad_environment(without(kTorch, "RANK"), "WORLD_SIZE is set to '8', and RANK is not set");
  expect_bad_environment(without(kTorch, "WORLD_SIZE"), "WORLD_SIZE is not set");
  expect_bad_environment(without(kTorch, "LOCAL_RANK"), "WORLD_SIZE", "LOCAL_RANK is not set");
  expect_bad_environment(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_RANK");
  expect_bad_environment(without(kSlurm, "SLURM_NTASKS"), "SLURM_PROCID", "SLURM_NTASKS");
}

TEST(World, needs_no_local_rank_for_one_rank) {
  EXPECT_EQ(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).local_rank(), 0);
}

TEST(World, refuses_numbers_out_of_range) {
  for (char const* const bad : {"8", "-1", "x", "1x", "1.5", "99999999999999999999", " 1"}) {
    expect_bad_environment(
        with(kTorch, "RANK", bad), "RANK: expected", "from 0 to 7 (WORLD_SIZE is 8)", bad);
    expect_bad_environment(with(kTorch, "LOCAL_RANK", bad), "LOCAL_RANK: expected", bad);
  }
  for (char const* const bad : {"0", "-4", "many"}) {
    expect_bad_environment(with(kSlurm, "SLURM_NTASKS", bad), "SLURM_NTASKS: expected", bad);
  }
}

}  // namespace
}  // namespace msstream::testing
