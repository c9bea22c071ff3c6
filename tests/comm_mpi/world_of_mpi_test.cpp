// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/run_program.hpp"
#include "comm/tcp_store.hpp"

#include <msstream/comm/collectives.hpp>
#include <msstream/comm/mpi.hpp>
#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using comm::World;
using comm::world_of_mpi;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The variable that says what a process of mpirun does.
constexpr char const* kMpiPart = "MSSTREAM_TEST_PART";

void initialise_mpi(int level = MPI_THREAD_FUNNELED) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
}
[[nodiscard]] bool is_finalised() {
  int answer = 0;
  MPI_Finalized(&answer);
  return answer != 0;
}

/// Expects that the ranks of a world add up what they have. Rank r of `size` has 10 * r + 1.
void expect_sums(World const& world, int rank, int size) {
  EXPECT_EQ(world.rank(), rank);
  ASSERT_EQ(world.size(), size);
  EXPECT_EQ(world.launch(), World::Launch::mpirun);
  Device<Host> const device;
  comm::Communicator<Host> const communicator(device, world);
  auto const x = to_device(device, std::vector<float>{10.0F * static_cast<float>(rank) + 1}, {1});
  all_reduce(communicator, x);
  EXPECT_EQ(to_host(x)[0], static_cast<float>(5 * size * (size - 1) + size));
}

void use_communicators_of_the_program() {
  initialise_mpi();
  auto const world = world_of_mpi(MPI_COMM_WORLD);
  EXPECT_EQ(world.local_rank(), world.rank());
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world.rank() % 2, -world.rank(), &half);
  auto const of_half = world_of_mpi(half);
  EXPECT_EQ(of_half.local_rank(), of_half.rank());
  MPI_Comm_free(&half);
  expect_sums(world, world.rank(), 4);
  MPI_Finalize();
  expect_sums(of_half, world.rank() < 2 ? 1 : 0, 2);
  expect_sums(world, world.rank(), 4);
}

void find_each_other_by_the_environment() {
  auto const world = World::from_environment();
  EXPECT_TRUE(is_finalised());
  expect_sums(world, std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")), 3);
  expect_sums(World::from_environment(), world.rank(), 3);
}

void leave_the_mpi_of_the_program_alone() {
  initialise_mpi();
  auto const world = World::from_environment();
  EXPECT_FALSE(is_finalised());
  MPI_Barrier(MPI_COMM_WORLD);
  expect_sums(world, world.rank(), 2);
  MPI_Finalize();
}

void refuse_what_mpi_does_not_allow() {
  auto const refusal = [] {
    return message_of<std::logic_error>([] { static_cast<void>(world_of_mpi(MPI_COMM_WORLD)); });
  };
  EXPECT_THAT(refusal(), HasSubstr("MPI is not initialised"));
  initialise_mpi();
  EXPECT_THAT(
      message_of<std::invalid_argument>([] { static_cast<void>(world_of_mpi(MPI_COMM_NULL)); }),
      HasSubstr("MPI_COMM_NULL"));
  std::jthread([&] { EXPECT_THAT(refusal(), HasSubstr("MPI_THREAD_SERIALIZED")); }).join();
  expect_sums(world_of_mpi(MPI_COMM_SELF), 0, 1);
  MPI_Finalize();
  EXPECT_THAT(refusal(), HasSubstr("MPI is finalised already"));
  EXPECT_THAT(message_of<std::logic_error>([] { static_cast<void>(World::from_environment()); }),
              HasSubstr("MPI is finalised already"));
}

void tell_that_a_process_does_not_come() {
  initialise_mpi();
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  int rank = 0;
  MPI_Comm_rank(other, &rank);
  auto const failure = [] {
    return message_of<std::runtime_error>(
        [] { static_cast<void>(world_of_mpi(MPI_COMM_WORLD, std::chrono::milliseconds(300))); });
  };
  if (rank == 0) {
    EXPECT_THAT(failure(), HasSubstr("MPI: rank 0 of 2 has waited 0.3 s for the others to call"));
  }
  MPI_Barrier(other);
  if (rank == 1) {  // by then, rank 0 has given up its store
    EXPECT_THAT(
        failure(),
        AllOf(HasSubstr("rank 1 of 2 (MPI): no connection to the store of rank 0 within 0.3 s: "),
              HasSubstr("127.0.0.1:")));
  }
  MPI_Barrier(other);
  MPI_Finalize();
}

void tell_why_rank_0_has_no_store() {
  initialise_mpi();
  EXPECT_THAT(
      message_of<std::runtime_error>([] { static_cast<void>(world_of_mpi(MPI_COMM_WORLD)); }),
      AllOf(HasSubstr("rank 0: "), HasSubstr("cannot listen on port")));
  MPI_Finalize();
}

std::map<std::string, std::function<void()>> const& parts_of_mpi() {
  static std::map<std::string, std::function<void()>> const made{
      {"communicators", use_communicators_of_the_program},
      {"environment", find_each_other_by_the_environment},
      {"own", leave_the_mpi_of_the_program_alone},
      {"misuse", refuse_what_mpi_does_not_allow},
      {"late", tell_that_a_process_does_not_come},
      {"port", tell_why_rank_0_has_no_store}};
  return made;
}

TEST(MpiProcess, plays_its_part) {
  auto const* const part = std::getenv(kMpiPart);
  if (part == nullptr) {
    GTEST_SKIP() << "only for processes that MpiProcesses has started";
  }
  parts_of_mpi().at(part)();
}

/// Runs a program by mpirun, and returns its output.
[[nodiscard]] Ended mpirun(int ranks,
                           std::string const& program,
                           Words const& arguments,
                           Words environment = {}) {
  // Open MPI refuses root and more processes than processors, unless it is told to take them.
  environment = environment + Words{"OMPI_ALLOW_RUN_AS_ROOT=1",
                                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                    "OMPI_MCA_rmaps_base_oversubscribe=1"};
  return run_program(MSSTREAM_MPIEXEC,
                     Words{"-n", std::to_string(ranks), program} + arguments,
                     {.environment = environment});
}

void expect_success(std::string const& part, int ranks, Words environment = {}) {
  auto const ended = mpirun(ranks,
                            std::filesystem::read_symlink("/proc/self/exe").string(),
                            {"--gtest_filter=MpiProcess.plays_its_part"},
                            Words{std::string(kMpiPart) + "=" + part} + environment);
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
}

TEST(MpiProcesses, use_communicators_of_the_program) {
  expect_success("communicators", 4);
}
TEST(MpiProcesses, find_each_other_by_the_environment) {
  expect_success("environment", 3);
}
TEST(MpiProcesses, leave_the_mpi_of_the_program_alone) {
  expect_success("own", 2);
}
TEST(MpiProcesses, refuse_what_mpi_does_not_allow) {
  expect_success("misuse", 2);
}
TEST(MpiProcesses, tell_that_a_process_does_not_come) {
  expect_success("late", 2);
}
TEST(MpiProcesses, tell_why_rank_0_has_no_store) {
  comm::detail::TcpStoreServer const taken(0);
  expect_success("port", 2, {fmt::format("MSSTREAM_COMM_PORT={}", taken.port())});
}

/// Processes for which the variables of mpirun are those of another MPI than the program's.
TEST(MpiProcesses, refuse_another_number_of_ranks_than_that_of_mpi) {
  auto const ended = run_program(MSSTREAM_TEACH_DATA_PARALLEL,
                                 {},
                                 {.environment = {"PMI_RANK=1",
                                                  "PMI_SIZE=4",
                                                  "MPI_LOCALRANKID=1",
                                                  "OMPI_ALLOW_RUN_AS_ROOT=1",
                                                  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}});
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.err,
              HasSubstr("rank 1 of 4 (mpirun, local rank 1), but MPI says rank 0 of 1: expected "
                        "the mpirun of the MPI"));
}

TEST(MpiPrograms, have_the_result_of_threads) {
  auto const threads = run_program(MSSTREAM_TEACH_DATA_PARALLEL, {});
  ASSERT_EQ(threads.status, 0) << threads.err;
  auto const processes = mpirun(3, MSSTREAM_TEACH_DATA_PARALLEL, {});
  EXPECT_EQ(processes.status, 0) << processes.err;
  EXPECT_EQ(processes.out, threads.out);
}

[[nodiscard]] std::string bytes_of_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(MpiPrograms, train_a_model_with_the_bits_of_threads) {
  auto const path = [](std::string const& name) { return ::testing::TempDir() + "/mpi_" + name; };
  Words const small = {"--runtime",
                       "host",
                       "--rows",
                       "2525",
                       "--batch",
                       "504",
                       "--epochs",
                       "2",
                       "--buckets",
                       "64",
                       "--quiet",
                       "--layers",
                       "16,8",
                       "--capture",
                       "--embedding-dim",
                       "4",
                       "--save"};
  for (int const ranks : {2, 3, 4}) {
    auto const threads = run_program(
        MSSTREAM_TRAIN_WDL, small + Words{path("threads"), "--ranks", std::to_string(ranks)});
    ASSERT_EQ(threads.status, 0) << threads.err;
    auto const processes = mpirun(ranks, MSSTREAM_TRAIN_WDL, small + Words{path("processes")});
    EXPECT_EQ(processes.status, 0) << processes.err;
    auto const model = bytes_of_file(path("processes"));
    EXPECT_FALSE(model.empty());
    EXPECT_TRUE(model == bytes_of_file(path("threads"))) << ranks << " ranks";
  }
  std::filesystem::remove(path("threads"));
  std::filesystem::remove(path("processes"));
}

TEST(MpiPrograms, refuse_another_number_of_ranks) {
  auto const ended = mpirun(2, MSSTREAM_TRAIN_WDL, {"--ranks", "3"});
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("--ranks 3: this process is rank "),
                    HasSubstr("of 2 (mpirun, local rank "),
                    HasSubstr("expected 2, or no --ranks")));
}

}  // namespace
}  // namespace msstream::testing
