// SPDX-License-Identifier: Apache-2.0
// Tests that sim::explore finds every legal order of a program, none of them twice, and that its
// reduction of equivalent orders loses no outcome.
#include "runtime/sim_program.hpp"

#include <msstream/runtime/sim_explore.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::size_t kStreams = 3;
constexpr std::size_t kOperations = 6;

std::set<std::string> outcomes_of(sim::Exploration const& found) {
  std::set<std::string> outcomes;
  for (auto const& seen : found.outcomes) {
    outcomes.insert(seen.outcome);
  }
  return outcomes;
}

TEST(Explore, independent_streams_have_one_order) {
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, kStreams);
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        program.writes(s, s, i);
      }
    }
    return program.cells();
  });
  EXPECT_TRUE(found.complete);
  EXPECT_TRUE(found.agrees()) << to_string(found);
  EXPECT_EQ(found.schedules, 1U);
  EXPECT_EQ(found.repeats, 0U);
}

TEST(Explore, ordered_streams_have_one_order) {
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, kStreams);
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        // Each operation waits for the previous stream, and writes the cell that an operation of
        // that stream wrote.
        program.wait(s, (s + kStreams - 1) % kStreams);
        program.writes(s, 0, i);
      }
    }
    return program.cells();
  });
  EXPECT_TRUE(found.complete);
  EXPECT_TRUE(found.agrees()) << to_string(found);
  EXPECT_EQ(found.schedules, 1U);
  EXPECT_EQ(found.repeats, 0U);
}

TEST(Explore, a_race_of_one_operation_a_stream_has_every_order_of_those) {
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, kStreams);
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      for (std::uint32_t s = 0; s < kStreams; ++s) {
        program.writes(s, i == s + 1 ? 10 : s, 10 * i + s);
      }
    }
    return program.cells();
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.schedules, 6U) << "3!";
  EXPECT_EQ(found.outcomes.size(), 6U) << to_string(found);
  EXPECT_LE(found.repeats, 6U);
}

TEST(Explore, races_in_pairs_multiply) {
  // Both streams write cells 0 to 3 of the program. The two writes of a cell can run in either
  // order, independently of the other cells.
  auto const run = [](bool reduce) {
    return sim::explore(
        [](Sim::Options const& options) {
          SimProgram program(options, 2);
          for (std::uint32_t i = 0; i < 4; ++i) {
            program.writes(0, i, 1);
            program.writes(1, i, 2);
          }
          return program.cells();
        },
        {.reduce = reduce});
  };
  auto const reduced = run(true);
  auto const brute = run(false);
  EXPECT_EQ(outcomes_of(reduced), outcomes_of(brute));
  EXPECT_EQ(reduced.schedules, reduced.outcomes.size()) << "each order differs from all others";
  EXPECT_LT(reduced.schedules, brute.schedules);
}

TEST(Explore, readers_of_the_same_memory_have_one_order) {
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, kStreams);
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        program.operation(s, {{20, AccessMode::read}, {s, AccessMode::write}}, i);
      }
    }
    return program.cells();
  });
  EXPECT_TRUE(found.complete && found.agrees()) << to_string(found);
  EXPECT_EQ(found.schedules, 1U);
}

TEST(Explore, the_host_finds_work_done_or_not) {
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, 2);
    for (std::uint32_t i = 0; i < kOperations; ++i) {
      program.writes(0, 0, i);
      program.writes(1, 1, i);
    }
    bool const first = program.runtime().query(program.record(0));
    bool const second = program.runtime().query(program.record(1));
    (void)program.cells();
    return std::vector<int>{first, second};
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.schedules, 4U) << to_string(found);
  EXPECT_EQ(found.outcomes.size(), 4U);
}

TEST(Explore, what_the_host_issues_after_it_waited_races_too) {
  // Stream 0 writes cell 0, and stream 1 writes cell 5. The host waits for stream 0 and then issues
  // a write of cell 5 on stream 0, which races with stream 1.
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, 2);
    program.writes(0, 0, 1);
    program.writes(1, 5, 2);
    program.runtime().synchronize(program.record(0));
    program.writes(0, 5, 3);
    return program.cells();
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.schedules, 2U) << to_string(found);
  EXPECT_EQ(found.outcomes.size(), 2U);
}

TEST(Explore, freeing_memory_under_work_is_one_of_the_things_that_can_happen) {
  auto const found = sim::explore([](Sim::Options const& options) {
    Sim runtime(options);
    auto* const s = runtime.create_stream(StreamPriority::normal);
    auto* const from = static_cast<unsigned char*>(runtime.allocate_device(1));
    auto* const to = static_cast<unsigned char*>(runtime.allocate_pinned(1));
    runtime.copy(to, from, 1, CopyKind::d2h, s);
    runtime.free_device(from, 1);
    runtime.synchronize_stream(s);
    int const seen = *to;
    runtime.free_pinned(to, 1);
    return seen;
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(outcomes_of(found), (std::set<std::string>{"0", "219"}));
}

TEST(Explore, a_wait_for_the_wrong_event_shows_in_pinned_memory_that_nobody_declares) {
  // The host waits for an event of stream 0, and reads pinned memory to which stream 1 copies.
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, 2);
    auto& runtime = program.runtime();
    auto* const from = static_cast<unsigned char*>(runtime.allocate_device(1));
    auto* const to = static_cast<unsigned char*>(runtime.allocate_pinned(1));
    *from = 7;
    program.writes(0, 0, 1);
    runtime.copy(to, from, 1, CopyKind::d2h, program.stream(1));
    runtime.synchronize(program.record(0));
    int const seen = *to;
    (void)program.cells();
    runtime.free_device(from, 1);
    runtime.free_pinned(to, 1);
    return seen;
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(outcomes_of(found), (std::set<std::string>{"0", "7"}));
}

TEST(Explore, work_outside_operations_is_told_apart_from_everything) {
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, 3);
    std::string log;
    for (std::size_t s = 0; s < 3; ++s) {
      program.runtime().call_host(program.stream(s), [&log, s] { log += fmt::format("{}", s); });
    }
    (void)program.cells();
    return log;
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(outcomes_of(found), (std::set<std::string>{"012", "021", "102", "120", "201", "210"}));
}

TEST(Explore, a_polling_program_comes_to_an_end) {
  auto const found = sim::explore([](Sim::Options const& options) {
    SimProgram program(options, 1);
    program.writes(0, 0, 1);
    auto const done = program.record(0);
    int polls = 0;
    while (!program.runtime().query(done)) {
      ++polls;
    }
    return polls;
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(outcomes_of(found), (std::set<std::string>{"0", "1", "2"}));
}

TEST(Explore, stops_at_the_limit_and_says_so) {
  auto const found = sim::explore(
      [](Sim::Options const& options) {
        SimProgram program(options, kStreams);
        for (std::uint32_t i = 0; i < kOperations; ++i) {
          for (std::uint32_t s = 0; s < kStreams; ++s) {
            program.writes(s, 0, s);
          }
        }
        return program.cells();
      },
      {.most_runs = 50});
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.schedules + found.repeats, 50U);
  EXPECT_NE(to_string(found).find("not all there are"), std::string::npos);
}

/// Throws if the write of stream 1 runs before the writes of stream 0. No wait orders the two
/// streams.
void racy(Sim::Options const& options) {
  SimProgram program(options, 2);
  program.writes(0, 0, 1);
  program.writes(0, 1, 1);
  program.writes(1, 0, 2);
  auto const cells = program.cells();
  if (cells[0] == (1 + 2 * 31) * 31) {
    throw std::runtime_error("stream 1 came first");
  }
}

TEST(Explore, a_failure_comes_with_a_schedule_that_shows_it_again) {
  auto const found = sim::explore(racy);
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_EQ(found.failure->what, "stream 1 came first");
  EXPECT_FALSE(found.agrees());
  auto const again = sim::schedule_from(found.failure->schedule);
  EXPECT_THROW(racy({.schedule = again}), std::runtime_error);
  EXPECT_THROW(racy({.schedule = again}), std::runtime_error) << "and again";
}

TEST(Explore, random_orders_find_it_too) {
  auto const found = sim::explore(racy, {.random_schedules = 100});
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_THROW(racy({.schedule = sim::schedule_from(found.failure->schedule)}), std::runtime_error);
  EXPECT_NE(to_string(found).find(found.failure->schedule), std::string::npos);
}

TEST(Explore, the_environment_names_the_one_schedule_to_run) {
  auto const all = sim::explore(racy);
  ASSERT_TRUE(all.failure.has_value());
  setenv("MSSTREAM_SIM_SCHEDULE", all.failure->schedule.c_str(), 1);
  auto const again = sim::explore(racy);
  setenv("MSSTREAM_SIM_SCHEDULE", "replay:", 1);
  auto const other = sim::explore(racy);
  setenv("MSSTREAM_SIM_SCHEDULE", "17", 1);
  EXPECT_THROW((void)sim::explore(racy), std::invalid_argument);
  unsetenv("MSSTREAM_SIM_SCHEDULE");
  ASSERT_TRUE(again.failure.has_value());
  EXPECT_EQ(again.failure->schedule, all.failure->schedule);
  EXPECT_EQ(again.schedules, 0U);
  EXPECT_FALSE(other.failure.has_value());
  EXPECT_EQ(other.schedules, 1U);
  EXPECT_FALSE(other.complete);
}

TEST(Explore, false_is_a_failure) {
  auto const found = sim::explore([](Sim::Options const& options) {
    Sim const runtime(options);
    return false;
  });
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_EQ(found.failure->what, "the program returned false");
}

TEST(Explore, a_second_simulation_in_a_run_is_refused) {
  auto const found = sim::explore([](Sim::Options const& options) {
    Sim const first(options);
    Sim const second(options);
  });
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_NE(found.failure->what.find("second simulation"), std::string::npos);
}

TEST(Explore, a_program_that_depends_on_something_else_is_found_out) {
  int run = 0;
  auto const found = sim::explore([&](Sim::Options const& options) {
    SimProgram program(options, 3);
    program.writes(0, 0, 1);
    program.writes(run++ % 2 == 0 ? 1 : 2, 0, 2);
    return program.cells();
  });
  ASSERT_TRUE(found.failure.has_value());
  EXPECT_NE(found.failure->what.find("something else"), std::string::npos);
}

TEST(Explore, runs_work_that_the_program_left_behind) {
  int ran = 0;
  auto const found = sim::explore([&](Sim::Options const& options) {
    // Enqueues work that holds the last reference to its own runtime.
    auto const runtime = std::make_shared<Sim>(options);
    auto* const s = runtime->create_stream(StreamPriority::normal);
    runtime->call_host(s, [runtime, &ran] { ++ran; });
  });
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(ran, 1);
}

/// Runs a random program of a few operations, waits and reads by the host, and returns a
/// description of all that the host saw.
std::string small_program(Sim::Options const& options, std::uint32_t seed) {
  std::mt19937 random(seed);
  auto const below = [&](std::size_t bound) { return random() % bound; };
  std::size_t const streams = 2 + below(2);
  SimProgram program(options, streams);
  std::string seen;
  std::size_t const steps = 4 + below(4);
  for (std::uint32_t i = 0; i < steps; ++i) {
    std::size_t const s = below(streams);
    switch (below(9)) {
      case 0:
        program.wait(s, below(streams));
        break;
      case 1:
        program.runtime().synchronize(program.record(s));
        break;
      case 2:
        seen += program.runtime().query(program.record(s)) ? '+' : '-';
        break;
      case 3:
        program.copy_out(s, below(3));
        break;
      case 4:
        seen += fmt::format("{} ", program.look_at_copy());
        break;
      default:
        program.operation(
            s, {{below(3), AccessMode::read}, {below(3), AccessMode::write}}, 1000 + i);
    }
  }
  auto const cells = program.cells();
  return seen + fmt::format("{} {} {} {}", cells[0], cells[1], cells[2], program.look_at_copy());
}

TEST(Explore, finds_the_outcomes_that_brute_force_finds) {
  std::size_t reduced_runs = 0;
  std::size_t brute_runs = 0;
  std::size_t with_races = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    auto const run = [&](bool reduce) {
      return sim::explore([&](Sim::Options const& options) { return small_program(options, seed); },
                          {.reduce = reduce});
    };
    auto const reduced = run(true);
    auto const brute = run(false);
    ASSERT_TRUE(brute.complete && reduced.complete) << seed;
    ASSERT_EQ(outcomes_of(reduced), outcomes_of(brute)) << "program " << seed;
    reduced_runs += reduced.schedules + reduced.repeats;
    brute_runs += brute.schedules;
    with_races += brute.outcomes.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(with_races, 100U) << "the programs should have something to find";
  EXPECT_LT(reduced_runs * 4, brute_runs);
}

}  // namespace
}  // namespace msstream::testing
