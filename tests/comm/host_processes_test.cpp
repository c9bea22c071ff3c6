// SPDX-License-Identifier: Apache-2.0
// Tests of ranks that are processes, on the host runtime. Each rank is this program, started again.
#include "base/message_of.hpp"
#include "base/run_program.hpp"
#include "comm/process_store.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveError;
using comm::PeerLost;
using comm::Reduction;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char const* kHostPart = "MSSTREAM_TEST_HOST_PART";
using Bits = std::vector<std::vector<std::int64_t>>;

/// Calls every collective with random elements, and returns the bits of all outputs of the rank.
template <Element T>
void call_all(Rank<Host> const& on, std::int64_t count, Bits& outputs) {
  auto const ranks = on.size();
  auto const elements = [&](std::int64_t of) {
    auto const seed = static_cast<std::uint64_t>(on.rank() * 1000 + of);
    return on.tensor(random_elements<T>(seed, static_cast<std::size_t>(of)));
  };
  auto const keep = [&](Tensor<T, Host> const& output) {
    outputs.push_back(bits_of(to_host(output)));
  };
  for (auto const reduction : {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min}) {
    if (std::integral<T> && reduction == Reduction::mean) {
      continue;
    }
    auto const x = elements(count);
    all_reduce(on.communicator, x, reduction);
    keep(x);
    auto const part = on.poisoned<T>(count);
    reduce_scatter(on.communicator, elements(count * ranks), part, reduction);
    keep(part);
  }
  auto const all = on.poisoned<T>(count * ranks);
  all_gather(on.communicator, elements(count), all);
  keep(all);
  all_to_all(on.communicator, elements(count * ranks), all);
  keep(all);
  auto const x = elements(count);
  broadcast(on.communicator, x, ranks - 1);
  keep(x);
  // Each rank sends to the next one, the even ones first.
  auto const from_last = on.poisoned<T>(count);
  auto const next = (on.rank() + 1) % ranks;
  auto const last = (on.rank() + ranks - 1) % ranks;
  if (on.rank() == 0) {
    send(on.communicator, elements(count), next);
  }
  receive(on.communicator, from_last, last);
  if (on.rank() != 0) {
    send(on.communicator, elements(count), next);
  }
  keep(from_last);
  barrier(on.communicator);
}

/// Rows for each rank, as many as counts say, from a captured step that is replayed.
void call_counted(Rank<Host> const& on, Bits& outputs) {
  auto const ranks = static_cast<std::int64_t>(on.size());
  constexpr std::int64_t kCapacity = 5;
  constexpr std::int64_t kWidth = 3;
  auto const input =
      to_device(on.device,
                random_elements<float>(static_cast<std::uint64_t>(on.rank()),
                                       static_cast<std::size_t>(ranks * kCapacity * kWidth)),
                {ranks, kCapacity, kWidth});
  std::vector<std::int64_t> counts;
  for (std::int64_t other = 0; other < ranks; ++other) {
    counts.push_back((on.rank() + 2 * other) % (kCapacity + 1));
  }
  auto const to = on.tensor(counts);
  Tensor<float, Host> const output(on.device, {ranks, kCapacity, kWidth});
  fill_bytes(output, 0xFF);
  auto const received = on.poisoned<std::int64_t>(ranks);
  CapturedStep<Host> step(on.device, [&] {
    all_to_all(on.communicator, input, to, output, received);
    all_reduce(on.communicator, received);
  });
  for (int i = 0; i < 3; ++i) {
    step.replay();
  }
  outputs.push_back(bits_of(to_host(output)));
  outputs.push_back(bits_of(to_host(received)));
}

[[nodiscard]] Bits outputs_of(Rank<Host> const& on) {
  Bits outputs;
  for (std::int64_t const count : {1, 7, 1'000, 70'000}) {
    call_all<float>(on, count, outputs);
  }
  call_all<bfloat16>(on, 33, outputs);
  call_all<std::int64_t>(on, 33, outputs);
  call_counted(on, outputs);
  return outputs;
}

void have_the_bits_of_threads(Rank<Host> const& on) {
  auto const outputs = outputs_of(on);
  std::vector<Bits> expected(static_cast<std::size_t>(on.size()));
  on_ranks<Host>(on.size(), [&](Rank<Host> const& thread) {
    expected[static_cast<std::size_t>(thread.rank())] = outputs_of(thread);
  });
  EXPECT_EQ(outputs, expected[static_cast<std::size_t>(on.rank())]);
  comm::Communicator<Host> const other(on.device, on.world, {.name = "other"});
  auto const one = on.tensor(std::vector<float>{1});
  all_reduce(other, one);
  all_reduce(on.communicator, one);
  EXPECT_EQ(to_host(one).front(), static_cast<float>(on.size() * on.size()));
  on.device.synchronize(barrier(on.communicator));
}

/// Expects an error in what has been issued, and that the device stays usable.
template <class Error>
void expect_error(Rank<Host> const& on, ::testing::Matcher<std::string> const& message) {
  try {
    on.communicator.synchronize();
    ADD_FAILURE() << "expected an error";
  } catch (Error const& error) {
    EXPECT_THAT(error.what(), message);
  }
  EXPECT_EQ(to_host(on.tensor(std::vector<float>{3}))[0], 3);
}
template <class Error>
void expect_error_in_all_reduce(Rank<Host> const& on,
                                ::testing::Matcher<std::string> const& message) {
  auto const x = on.tensor(std::vector<float>{1});
  try {
    all_reduce(on.communicator, x);
  } catch (Error const& error) {
    EXPECT_THAT(error.what(), message);
    return;
  }
  expect_error<Error>(on, message);
}

void lose_one_that_dies(Rank<Host> const& on) {
  on.device.synchronize(barrier(on.communicator));
  if (on.rank() == 1) {
    ::_exit(0);
  }
  expect_error_in_all_reduce<PeerLost>(
      on, AllOf(HasSubstr("rank 1 is lost"), HasSubstr("its process has ended")));
}

void lose_one_that_leaves(Rank<Host> const& on) {
  on.device.synchronize(barrier(on.communicator));
  if (on.rank() == 1) {
    return;
  }
  expect_error_in_all_reduce<PeerLost>(
      on,
      AllOf(HasSubstr("rank 1 is lost: it has ended its communicator"), HasSubstr("all_reduce")));
}

/// Rank 0 does not come: it serves the store, by which it is told.
void lose_one_that_does_not_come(Rank<Host> const& on) {
  auto const message = AllOf(HasSubstr("rank 0 is lost"), HasSubstr("no collective in flight"));
  if (on.rank() != 0) {
    return expect_error_in_all_reduce<PeerLost>(on, message);
  }
  // Every wait for the device tells it, also to the rank that others have named.
  auto const x = on.tensor(std::vector<float>{1});
  for (bool is_told = false; !is_told;) {
    try {
      EXPECT_EQ(to_host(x)[0], 1);
      std::this_thread::yield();
    } catch (PeerLost const& error) {
      EXPECT_THAT(error.what(), message);
      is_told = true;
    }
  }
}

void find_collectives_that_differ(Rank<Host> const& on) {
  auto const x = on.tensor(std::vector<float>(on.rank() == 1 ? 9 : 8, 1.0F));
  all_reduce(on.communicator, x);
  expect_error<CollectiveError>(on,
                                AllOf(HasSubstr("communicator 'world': rank "),
                                      HasSubstr("has all_reduce of 8 float32 (sum) at "),
                                      HasSubstr("rank 1 has all_reduce of 9 float32 (sum) at "),
                                      HasSubstr("host_processes_test.cpp:")));
}

void find_counts_beyond_the_capacity(Rank<Host> const& on) {
  auto const rows = on.tensor(std::vector<float>(static_cast<std::size_t>(on.size()), 1.0F));
  auto const output = on.poisoned<float>(on.size());
  auto const shape = Shape{on.size(), 1};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(on.size()), 1);
  counts[0] = on.rank() == 1 ? 2 : 1;
  auto const received = on.poisoned<std::int64_t>(on.size());
  all_to_all(
      on.communicator, rows.reshaped(shape), on.tensor(counts), output.reshaped(shape), received);
  expect_error<CollectiveError>(on,
                                AllOf(HasSubstr("rank 1 has all_to_all"),
                                      HasSubstr("host_processes_test.cpp:"),
                                      HasSubstr("its count for rank 0 is 2")));
}

/// Rank 1 refuses its arguments, and later gives its communicator up, which it keeps.
void lose_one_that_refuses(Rank<Host> const& on) {
  auto const refusal = [&] {
    comm::Communicator<Host> const own(on.device, on.world, {.name = "own"});
    all_reduce(own,
               on.tensor(std::vector<std::int32_t>{1}),
               on.rank() == 1 ? Reduction::mean : Reduction::sum);
    own.synchronize();
  };
  EXPECT_THAT(message_of<std::exception>(refusal),
              AllOf(HasSubstr("all_reduce: the mean of int32"),
                    HasSubstr(on.rank() == 1 ? "expected float32" : "rank 1 is lost")));
  on.device.synchronize(barrier(on.communicator));
  comm::Communicator<Host> const until_all_are_told(on.device, on.world, {.name = "told"});
  if (on.rank() == 1) {
    on.communicator.any().give_up("row 7 has no label");
  } else {
    expect_error_in_all_reduce<PeerLost>(on, HasSubstr("rank 1 is lost: row 7 has no label"));
  }
  on.device.synchronize(barrier(until_all_are_told));
}

/// A member of the group of a color.
[[nodiscard]] Rank<Host> member(Rank<Host> const& on, int color, std::string const& name) {
  auto const world = on.world.split(color);
  return {world, on.device, comm::Communicator<Host>(on.device, world, {.name = name})};
}
void expect_sums(Rank<Host> const& on) {
  for (int i = 0; i < 20; ++i) {
    auto const x = on.tensor(std::vector<float>{1});
    all_reduce(on.communicator, x);
    EXPECT_EQ(to_host(x)[0], static_cast<float>(on.size()));
  }
}

void split_the_world(Rank<Host> const& on) {
  auto const inside = member(on, on.rank() / 2, "own");
  auto const between = member(on, on.rank() % 2, "own");
  auto const own = member(inside, inside.rank(), "own");
  expect_sums(inside);
  expect_sums(between);
  expect_sums(on);
  expect_sums(own);
  Bits const outputs = outputs_of(inside);
  std::vector<Bits> expected(2);
  on_ranks<Host>(2, [&](Rank<Host> const& thread) {
    expected[static_cast<std::size_t>(thread.rank())] = outputs_of(thread);
  });
  EXPECT_EQ(outputs, expected[static_cast<std::size_t>(inside.rank())]);
  auto const last = on.world.split(on.rank() == 3 ? std::optional(0) : std::optional<int>());
  EXPECT_EQ(last.has_value(), on.rank() == 3);
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { static_cast<void>(on.world.split(on.rank() == 2 ? -5 : 0)); }),
              HasSubstr("rank 2 has a color of -5"));
  on.device.synchronize(barrier(on.communicator));
}

/// Calls collectives until the communicator is the one whose failure is told, which any wait for
/// the device may do for another one. Returns the message.
[[nodiscard]] std::string loss_told(Rank<Host> const& on) {
  for (;;) {
    try {
      all_reduce(on.communicator, on.tensor(std::vector<float>{1}));
      on.communicator.synchronize();
    } catch (PeerLost const& error) {
      std::string const message = error.what();
      if (message.starts_with("communicator '" + on.communicator.name() + "'")) {
        return message;
      }
    }
  }
}

/// A process ends. Its groups fail, the other ones go on, also without the one that serves the
/// store.
void lose_a_rank_of_a_group(Rank<Host> const& on, int dying) {
  auto const inside = member(on, on.rank() / 2, "inside");
  on.device.synchronize(barrier(on.communicator));
  if (on.rank() == dying) {
    ::_exit(0);
  }
  if (on.rank() / 2 == dying / 2) {
    EXPECT_THAT(loss_told(inside),
                AllOf(HasSubstr(dying < 2 ? "of ranks 0, 1 of the whole world"
                                          : "of ranks 2, 3 of the whole world"),
                      HasSubstr(fmt::format("rank {} ({} of the whole world) is lost: its process "
                                            "has ended",
                                            dying % 2,
                                            dying))));
  }
  EXPECT_THAT(loss_told(on), HasSubstr(fmt::format("rank {} is lost: its process has", dying)));
  if (on.rank() / 2 != dying / 2) {
    expect_sums(inside);
  }
}

std::map<std::string, std::function<void(Rank<Host> const&)>> const& parts() {
  static std::map<std::string, std::function<void(Rank<Host> const&)>> const made{
      {"bits", have_the_bits_of_threads},
      {"dies", lose_one_that_dies},
      {"leaves", lose_one_that_leaves},
      {"does not come", lose_one_that_does_not_come},
      {"refuses", lose_one_that_refuses},
      {"split", split_the_world},
      {"of a group dies", [](auto const& on) { lose_a_rank_of_a_group(on, 3); }},
      {"that serves dies", [](auto const& on) { lose_a_rank_of_a_group(on, 0); }},
      {"differ", find_collectives_that_differ},
      {"counts", find_counts_beyond_the_capacity}};
  return made;
}

/// Starts ranks that do `part`, by the variables of torchrun, and expects that all succeed.
void expect_success(std::string const& part, int ranks) {
  auto const port = std::to_string(comm::detail::TcpStoreServer(0).port());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([=] {
      auto const ended = run_program("/proc/self/exe",
                                     {"--gtest_filter=HostProcess.plays_its_part"},
                                     {.environment = {fmt::format("RANK={}", rank),
                                                      fmt::format("LOCAL_RANK={}", rank),
                                                      fmt::format("WORLD_SIZE={}", ranks),
                                                      "MASTER_ADDR=127.0.0.1",
                                                      "MSSTREAM_COMM_PORT=" + port,
                                                      std::string(kHostPart) + "=" + part}});
      EXPECT_EQ(ended.status, 0) << "rank " << rank << ":\n" << ended.out << ended.err;
    });
  }
}

TEST(HostProcesses, have_the_bits_of_threads) {
  for (int const ranks : {2, 3}) {
    expect_success("bits", ranks);
  }
}
TEST(HostProcesses, lose_a_process_that_dies) {
  expect_success("dies", 3);
}
TEST(HostProcesses, lose_a_process_that_has_left) {
  expect_success("leaves", 3);
}
TEST(HostProcesses, lose_a_process_that_does_not_come) {
  expect_success("does not come", 2);
}
TEST(HostProcesses, lose_a_process_that_refuses) {
  expect_success("refuses", 3);
}
TEST(HostProcesses, split_their_world) {
  expect_success("split", 4);
}
TEST(HostProcesses, lose_a_process_of_a_group_while_others_go_on) {
  expect_success("of a group dies", 4);
}
TEST(HostProcesses, lose_the_process_that_serves_while_other_groups_go_on) {
  expect_success("that serves dies", 4);
}
TEST(HostProcesses, find_collectives_that_differ) {
  expect_success("differ", 3);
}
TEST(HostProcesses, find_counts_beyond_the_capacity) {
  expect_success("counts", 3);
}

TEST(HostProcess, plays_its_part) {
  auto const* const part = std::getenv(kHostPart);
  if (part == nullptr) {
    GTEST_SKIP() << "only for processes that HostProcesses has started";
  }
  auto const world = comm::World::from_environment();
  auto const device = comm::device_of<Host>(world);
  auto const timeout = std::chrono::seconds(std::string(part) == "does not come" ? 2 : 120);
  parts().at(part)(
      Rank<Host>{world, device, comm::Communicator<Host>(device, world, {.timeout = timeout})});
}

}  // namespace
}  // namespace msstream::testing
