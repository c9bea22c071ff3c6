// SPDX-License-Identifier: Apache-2.0
// Tests of a Checker without a runtime: its modes, its use by several threads, and that its memory
// does not grow with the number of operations.
#include "base/many.hpp"
#include "trust/checker_fixture.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <malloc.h>

#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

/// Sets an environment variable while the guard lives.
class Environment {
 public:
  Environment(char const* name, char const* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(Environment const&) = delete;
  Environment& operator=(Environment const&) = delete;

 private:
  char const* name_;
};

TEST(CheckerMode, to_throw_leaves_out_what_is_wrong_and_goes_on) {
  Streams on({.mode = CheckMode::throw_error});
  on.write(1, 0, "first");
  try {
    on.write(2, 0, "second");
    FAIL() << "nothing was thrown";
  } catch (RaceError const& error) {
    EXPECT_EQ(error.report().kind, CheckKind::race);
    EXPECT_EQ(std::string(error.what()), error.report().text());
  }
  EXPECT_EQ(on.checker.count(), 1U);
  // The throw has prevented the launch of "second", so nothing must follow it, and stream 2 can go
  // on.
  on.write(1, 0, "third");
  on.order(1, 2);
  on.write(2, 0, "fourth");
  EXPECT_EQ(on.checker.count(), 1U) << on.checker.json();
}

TEST(CheckerMode, to_throw_leaves_memory_unwritten_that_an_operation_was_not_launched_for) {
  Streams on({.mode = CheckMode::throw_error});
  on.take(0);
  on.take(1);
  Operation copy = operation("copy", {use(0, AccessMode::read), use(1, AccessMode::write)});
  EXPECT_THROW(on.checker.declare(copy), RaceError);
  Operation reader = operation("reader", {use(1, AccessMode::read)});
  EXPECT_THROW(on.checker.declare(reader), RaceError);
}

TEST(CheckerMode, to_throw_tells_of_all_findings_of_one_operation) {
  Streams on({.mode = CheckMode::throw_error});
  for (Checker::Handle stream = 1; stream <= 3; ++stream) {
    on.read(stream, 0, fmt::format("reader {}", stream));
  }
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(on.write(4, 0, "writer"), RaceError);
  auto const told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(on.checker.reports().size(), 3U);  // one is thrown, the others are logged
  EXPECT_THAT(told, ::testing::Not(HasSubstr("reader 1")));
  EXPECT_THAT(told, HasSubstr("reader 2"));
  EXPECT_THAT(told, HasSubstr("reader 3"));
}

TEST(CheckerMode, to_log_tells_once_and_counts_all) {
  ::testing::internal::CaptureStderr();
  {
    Streams on({.mode = CheckMode::log});
    for (int i = 0; i < 3; ++i) {
      on.write(1, 0, "one");
      on.write(2, 0, "two");
    }
    EXPECT_EQ(on.checker.count(), 5U);
    EXPECT_EQ(on.checker.count(CheckKind::race), 5U);
    EXPECT_EQ(on.checker.count(CheckKind::leak), 0U);
    auto const reports = on.checker.reports();
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].times, 3U);  // write "two" races with write "one"
    EXPECT_EQ(reports[1].times, 2U);  // write "one" races with write "two"
  }
  auto const told = ::testing::internal::GetCapturedStderr();
  auto const first = told.find("'two' writes memory that 'one' may still write");
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find("'two' writes memory that 'one' may still write", first + 1),
            std::string::npos)
      << told;
}

TEST(CheckerMode, to_count_is_silent) {
  ::testing::internal::CaptureStderr();
  {
    Streams on({.mode = CheckMode::count});
    on.write(1, 0, "one");
    on.write(2, 0, "two");
    EXPECT_EQ(on.checker.count(), 1U);
    on.checker.clear();
    EXPECT_EQ(on.checker.count(), 0U);
    EXPECT_TRUE(on.checker.reports().empty());
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(CheckerMode, keeps_the_first_of_many_different_findings_and_counts_the_others) {
  int told = 0;
  Streams on({.mode = CheckMode::count,
              .on_report = [&](CheckReport const&) { ++told; },
              .most_reports = 4});
  on.write(1, 0, "first");
  for (int i = 0; i < 10; ++i) {
    on.read(2, 0, fmt::format("reader {}", i));
  }
  EXPECT_EQ(on.checker.count(), 10U);
  EXPECT_EQ(on.checker.reports().size(), 4U);
  EXPECT_EQ(on.checker.reports().back().second->operation, "reader 3");
  EXPECT_EQ(told, 4);
}

/// The callback for findings may call the checker. It may also throw, even an object that is not a
/// std::exception, in a call from a destructor.
TEST(CheckerMode, calls_back_without_its_locks) {
  Checker const* asked = nullptr;
  std::size_t seen = 0;
  {
    Streams on({.mode = CheckMode::count, .on_report = [&](CheckReport const&) {
                  seen = asked->reports().size();
                  if (seen == 2) {
                    throw 42;
                  }
                }});
    asked = &on.checker;
    on.write(1, 0, "one");
    on.write(2, 0, "two");
    EXPECT_EQ(seen, 1U);
    ::testing::internal::CaptureStderr();
    on.checker.freed(address(0), kPartBytes);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("a finding was lost"));
    EXPECT_EQ(seen, 2U);
  }
}

TEST(CheckerOptionsFromEnvironment, are_read_and_refused_by_name) {
  EXPECT_EQ(CheckerOptions{}.mode, CheckMode::throw_error);
  {
    Environment const mode("MSSTREAM_CHECK_MODE", "log");
    EXPECT_EQ(CheckerOptions{}.mode, CheckMode::log);
  }
  {
    Environment const mode("MSSTREAM_CHECK_MODE", "count");
    Environment const path("MSSTREAM_CHECK_REPORT", "found.json");
    EXPECT_EQ(CheckerOptions{}.mode, CheckMode::count);
    EXPECT_EQ(CheckerOptions{}.report_path, "found.json");
  }
  Environment const mode("MSSTREAM_CHECK_MODE", "shout");
  try {
    static_cast<void>(CheckerOptions{});
    FAIL() << "accepted";
  } catch (std::invalid_argument const& error) {
    for (auto const* const part : {"MSSTREAM_CHECK_MODE", "shout", "throw", "log", "count"}) {
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }
}

TEST(CheckerOrder, streams_and_events_made_elsewhere_are_no_leaks_and_no_unrecorded_waits) {
  Checker checker({.mode = CheckMode::count, .report_path = {}});
  auto const moment = checker.waitable_moment_of(900, 500);
  ASSERT_TRUE(moment.has_value());
  checker.waited(500, *moment);
  checker.recorded(901, checker.tail_of(500));
  checker.report_leaks();
  EXPECT_EQ(checker.count(), 0U) << checker.json();
}

/// A new stream with the handle of a destroyed stream is a different stream, so the old stream's
/// work, which still runs, does not precede it.
TEST(CheckerOrder, a_stream_with_the_handle_of_another_one_is_another_one) {
  Streams on({.mode = CheckMode::count});
  on.checker.stream_created(77);
  on.write(77, 0, "before");
  on.checker.stream_destroyed(77);
  on.checker.stream_created(77);
  on.write(77, 0, "after");
  EXPECT_EQ(only_report(on.checker, CheckKind::race).first->operation, "before");
  on.checker.clear();
  on.synchronize(77);
  on.checker.stream_destroyed(77);
  on.checker.stream_created(77);
  on.write(77, 0, "later");
  EXPECT_EQ(on.checker.count(), 0U) << on.checker.json();
}

TEST(CheckerOrder, an_event_recorded_before_its_stream_was_destroyed_still_orders) {
  Streams on({.mode = CheckMode::count});
  on.checker.stream_created(77);
  on.write(77, 0, "before");
  on.record(1, 77);
  on.checker.stream_destroyed(77);
  on.checker.stream_created(78);
  on.wait(78, 1);
  on.write(78, 0, "after");
  EXPECT_EQ(on.checker.count(), 0U) << on.checker.json();
}

TEST(CheckerMemory, clocks_do_not_grow_with_streams_that_came_and_went) {
  Streams on({.mode = CheckMode::count});
  for (int i = 0; i < 5000; ++i) {
    on.checker.stream_created(77);
    on.order(1, 77);
    on.write(77, 0, "brief");
    on.order(77, 1);
    // The host waits for every second stream directly, and for the others through stream 1, which
    // follows them.
    on.synchronize(i % 2 == 0 ? 77 : 1);
    on.checker.stream_destroyed(77);
  }
  EXPECT_EQ(on.checker.count(), 0U) << on.checker.json();
  EXPECT_LE(on.checker.tail_of(1).clock.size(), Streams::kStreams + 2);
}

[[nodiscard]] std::size_t allocated_bytes() {
  return ::mallinfo2().uordblks;
}

/// The program reads weights, writes ranges that overlap in ever new ways, and allocates and frees
/// blocks.
TEST(CheckerMemory, history_does_not_grow_with_a_million_operations) {
  Streams on({.mode = CheckMode::count});
  std::minstd_rand random(7);
  auto const run = [&](std::uint32_t operations) {
    for (std::uint32_t i = 0; i < operations; ++i) {
      auto const stream = 1 + random() % Streams::kStreams;
      auto const first = random() % 60;
      auto const range = range_of(first, 1 + random() % 4);
      on.order(1, stream);
      on.use_range(stream, random() % 2 == 0 ? AccessMode::read : AccessMode::write, range);
      on.order(stream, 1);
      if (i % 16 == 0) {
        on.checker.taken(address(first), kPartBytes);
        on.checker.returned(address(first), kPartBytes);
      }
    }
  };
  run(many(20'000));
  auto const before = allocated_bytes();
  run(many(1'000'000));
  EXPECT_LE(allocated_bytes(), before + (16U << 10U));
}

/// Each thread writes its own memory on its own stream, and reads memory that all threads share.
TEST(CheckerThreads, find_nothing_in_a_program_that_is_right_and_all_in_one_that_is_not) {
  for (bool const is_right : {true, false}) {
    Streams on({.mode = CheckMode::count});
    on.write(1, 63, "shared");
    on.synchronize(1);
    std::vector<std::thread> threads;
    std::uint64_t const times = many(5000);
    for (std::size_t t = 0; t < Streams::kStreams; ++t) {
      threads.emplace_back([&, t] {
        auto const stream = static_cast<Checker::Handle>(t + 1);
        for (std::uint64_t i = 0; i < times; ++i) {
          on.write(stream, t, "own");
          on.read(stream, 63, "shared");
          on.record(100 + t, stream);
          on.wait(stream, 100 + t);
          on.checker.host_saw(on.checker.moment_of(100 + t, "query").value());
          static_cast<void>(on.checker.reports());
        }
        if (!is_right) {
          on.write(stream, 62, fmt::format("conflict of {}", t));
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    // In the wrong program, each writer but the first one races with the writer before.
    EXPECT_EQ(on.checker.count(), is_right ? 0 : Streams::kStreams - 1) << on.checker.json();
  }
}

}  // namespace
}  // namespace msstream::testing
