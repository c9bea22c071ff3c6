// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// A thread-safe record of the calls of a function.
class Calls {
 public:
  void add(std::int64_t begin, std::int64_t end) {
    std::lock_guard const lock(mutex_);
    ranges_.emplace_back(begin, end);
    threads_.push_back(std::this_thread::get_id());
  }
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> const& ranges() const {
    return ranges_;
  }
  [[nodiscard]] std::vector<std::thread::id> const& threads() const { return threads_; }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
  std::vector<std::thread::id> threads_;
};

/// Returns for each of `count` items how many of the calls include it.
std::vector<int> visits(Calls const& calls, std::int64_t count) {
  std::vector<int> visits(static_cast<std::size_t>(count));
  for (auto const& [begin, end] : calls.ranges()) {
    for (auto i = begin; i < end; ++i) {
      ++visits.at(static_cast<std::size_t>(i));
    }
  }
  return visits;
}

std::int64_t sum_below(RangeTeam& team, std::int64_t count, std::int64_t grain) {
  std::atomic<std::int64_t> sum{0};
  team.run(count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t part = 0;
    for (auto i = begin; i < end; ++i) {
      part += i;
    }
    sum += part;
  });
  return sum;
}

TEST(RangeTeam, visits_each_item_once_in_ranges_of_a_grain_or_more) {
  for (int const helpers : {0, 1, 2, 7}) {
    RangeTeam team(helpers);
    for (std::int64_t const count : {0, 1, 2, 3, 10, 63, 64, 65, 1000, 4099}) {
      for (std::int64_t const grain : {1, 2, 3, 16, 64, 5000}) {
        SCOPED_TRACE(fmt::format("{} items, grain {}, {} helpers", count, grain, helpers));
        Calls calls;
        team.run(count, grain, [&](auto begin, auto end) { calls.add(begin, end); });
        EXPECT_THAT(visits(calls, count), Each(1));
        for (auto const& [begin, end] : calls.ranges()) {
          EXPECT_GE(end - begin, std::min(grain, count));
          EXPECT_GT(end, begin);
        }
      }
    }
  }
}

TEST(RangeTeam, helpers_run_ranges_beside_the_caller) {
  RangeTeam team(3);
  std::latch all_begun(4);
  Calls calls;
  team.run(4, 1, [&](auto begin, auto end) {
    calls.add(begin, end);
    all_begun.arrive_and_wait();
  });
  auto threads = calls.threads();
  std::sort(threads.begin(), threads.end());
  EXPECT_EQ(std::unique(threads.begin(), threads.end()), threads.end());
  EXPECT_TRUE(std::binary_search(threads.begin(), threads.end(), std::this_thread::get_id()));
}

TEST(RangeTeam, a_caller_does_not_wait_for_a_helper_that_is_busy) {
  RangeTeam team(1);
  std::latch both_begun(3);
  std::latch gate(1);
  std::thread other([&] {
    team.run(2, 1, [&](auto, auto) {
      both_begun.arrive_and_wait();
      gate.wait();
    });
  });
  both_begun.arrive_and_wait();
  EXPECT_EQ(sum_below(team, 1000, 1), 499'500);
  gate.count_down();
  other.join();
}

TEST(RangeTeam, many_callers_get_their_own_items) {
  RangeTeam team(3);
  std::vector<std::thread> callers;
  for (std::int64_t caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&team, caller] {
      for (std::int64_t count = caller; count < 300; ++count) {
        ASSERT_EQ(sum_below(team, count, 1 + caller), count * (count - 1) / 2);
      }
    });
  }
  for (auto& caller : callers) {
    caller.join();
  }
}

TEST(RangeTeam, an_exception_of_the_callers_range_reaches_the_caller_when_helpers_have_left) {
  RangeTeam team(2);
  for (int round = 0; round < 50; ++round) {
    std::latch all_begun(3);
    std::atomic<int> ended{0};
    auto const caller = std::this_thread::get_id();
    auto const failing = [&](auto, auto) {
      all_begun.arrive_and_wait();
      if (std::this_thread::get_id() == caller) {
        throw std::runtime_error("of the caller");
      }
      ++ended;
    };
    EXPECT_THROW(team.run(3, 1, failing), std::runtime_error);
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(sum_below(team, 100, 1), 4950);
  }
}

TEST(RangeTeam, an_exception_of_a_helpers_range_reaches_the_caller) {
  RangeTeam team(2);
  for (int round = 0; round < 50; ++round) {
    std::latch all_begun(3);
    auto const caller = std::this_thread::get_id();
    auto const failing = [&](auto, auto) {
      all_begun.arrive_and_wait();
      if (std::this_thread::get_id() != caller) {
        throw std::runtime_error("of a helper");
      }
    };
    EXPECT_THROW(team.run(3, 1, failing), std::runtime_error);
    EXPECT_EQ(sum_below(team, 100, 1), 4950);
  }
}

TEST(RangeTeam, ranges_after_an_exception_are_left_out) {
  RangeTeam team(1);
  std::atomic<int> begun{0};
  auto const failing = [&](auto, auto) {
    ++begun;
    throw std::runtime_error("at once");
  };
  EXPECT_THROW(team.run(1000, 1, failing), std::runtime_error);
  EXPECT_LE(begun, 2);
}

TEST(RangeTeam, a_call_from_within_a_range_runs_on_its_thread) {
  RangeTeam team(2);
  std::latch all_begun(3);
  team.run(3, 1, [&](auto, auto) {
    all_begun.arrive_and_wait();
    Calls inner;
    team.run(1000, 1, [&](auto begin, auto end) { inner.add(begin, end); });
    EXPECT_THAT(inner.ranges(), ::testing::ElementsAre(::testing::Pair(0, 1000)));
    EXPECT_THAT(inner.threads(), Each(std::this_thread::get_id()));
  });
  // A second call checks that the calling thread is no longer marked as within a range.
  std::latch outer(3);
  team.run(3, 1, [&](auto, auto) { outer.arrive_and_wait(); });
}

TEST(RangeTeam, ends_without_ever_having_run) {
  RangeTeam const team(3);
}

TEST(ParallelRanges, little_work_is_one_call_on_the_calling_thread) {
  for (std::int64_t const count : {1, 16, 31}) {
    Calls calls;
    parallel_ranges(count, 16, [&](auto begin, auto end) { calls.add(begin, end); });
    EXPECT_THAT(calls.ranges(), ::testing::ElementsAre(::testing::Pair(0, count)));
    EXPECT_THAT(calls.threads(), Each(std::this_thread::get_id()));
  }
  parallel_ranges(0, 16, [](auto, auto) { FAIL() << "a range of nothing"; });
}

TEST(ParallelRanges, threads_are_read_from_the_environment) {
  constexpr char const* kVariable = "MSSTREAM_HOST_KERNEL_THREADS";
  char const* const before = std::getenv(kVariable);
  std::string const kept = before != nullptr ? before : "";
  setenv(kVariable, "3", 1);
  EXPECT_EQ(RangeTeam::threads_of_process(), 3);
  for (char const* const bad : {"0", "-1", "1025", "two", "1 "}) {
    setenv(kVariable, bad, 1);
    try {
      (void)RangeTeam::threads_of_process();
      FAIL() << bad << " was accepted";
    } catch (std::invalid_argument const& error) {
      EXPECT_THAT(error.what(), HasSubstr(kVariable));
      EXPECT_THAT(error.what(), HasSubstr("from 1 to 1024"));
    }
  }
  unsetenv(kVariable);
  EXPECT_GE(RangeTeam::threads_of_process(), 1);
  if (before != nullptr) {
    setenv(kVariable, kept.c_str(), 1);
  }
}

TEST(ParallelRows, visit_each_row_once_and_split_by_places) {
  constexpr std::int64_t kGrain = 64;
  std::vector<std::vector<std::int32_t>> const lengths = {{5},
                                                          {0, 0, 0},
                                                          {100'000},
                                                          std::vector<std::int32_t>(1000, 0),
                                                          std::vector<std::int32_t>(1000, 7),
                                                          {0, 0, 5000, 0, 1, 1, 1, 1000, 0, 0},
                                                          {1, 1, 1, 1, 1, 1, 1, 1, 1, 100'000}};
  for (auto const& of_rows : lengths) {
    for (std::int32_t const first : {0, 11}) {
      std::vector<std::int32_t> offsets{first};
      for (auto const length : of_rows) {
        offsets.push_back(offsets.back() + length);
      }
      auto const rows = static_cast<std::int64_t>(of_rows.size());
      Calls calls;
      parallel_rows(offsets.data(), rows, kGrain, [&](auto begin, auto end) {
        ASSERT_LT(begin, end);
        calls.add(begin, end);
      });
      EXPECT_THAT(visits(calls, rows), Each(1));
      if (calls.ranges().size() == 1) {
        continue;  // too little work, one long row, or one processor: no sharing expected
      }
      for (auto const& [begin, end] : calls.ranges()) {
        // Without its last row, a range is no longer than half of all items, positions and rows.
        auto const places = offsets[static_cast<std::size_t>(end) - 1] -
                            offsets[static_cast<std::size_t>(begin)] + end - begin;
        EXPECT_LE(places, (offsets.back() - first + rows) / 2 + 1);
      }
    }
  }
}

TEST(ParallelRows, no_rows_are_no_call) {
  std::int64_t const offsets[] = {3};
  parallel_rows(offsets, 0, 1, [](auto, auto) { FAIL() << "a range of nothing"; });
}

// ThreadSanitizer does not allow the forked child of a process with threads to start threads of its
// own.
#if !defined(__SANITIZE_THREAD__)

/// Returns whether parallel_ranges() shares its work among as many threads as configured.
bool works_with_all_threads() {
  auto const threads = RangeTeam::threads_of_process();
  std::latch all_begun(threads);
  std::atomic<int> ranges{0};
  // Each thread gets one range, because no range ends before all have begun.
  parallel_ranges(std::int64_t{8} * threads, 1, [&](auto, auto) {
    if (ranges.fetch_add(1) < threads) {
      all_begun.arrive_and_wait();
    }
  });
  return ranges == (threads > 1 ? 8 * threads : 1);
}

/// Returns the exit code of a forked child process that calls `function`. A child that hangs is
/// killed.
template <class Function>
int exit_code_of_child(Function const& function) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(60);
    function();
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

TEST(ParallelRanges, a_forked_child_has_a_team_of_its_own) {
  ASSERT_TRUE(works_with_all_threads());
  EXPECT_EQ(exit_code_of_child([] { ::_exit(works_with_all_threads() ? 7 : 1); }), 7);
  EXPECT_TRUE(works_with_all_threads());
}

TEST(ParallelRanges, works_until_the_last_static_object_is_gone) {
  auto const code = exit_code_of_child([] {
    std::atexit([] { ::_exit(works_with_all_threads() ? 7 : 1); });
    (void)works_with_all_threads();
    std::exit(1);
  });
  EXPECT_EQ(code, 7);
}

#endif

}  // namespace
}  // namespace msstream::ops::kernels::testing
