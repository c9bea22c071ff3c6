// SPDX-License-Identifier: Apache-2.0
// Tests that every query gets an outcome, whichever host allocation fails.
#include "base/watchdog.hpp"
#include "serve/serve_fixture.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <new>

namespace msstream::testing {
namespace {

/// No limit, as a value of `allocations_left`, which is the number of allocations that the calling
/// thread may still make.
constexpr std::int64_t kAll = -1;
thread_local std::int64_t allocations_left = kAll;
thread_local bool stays_out = false;
thread_local std::int64_t failed_allocations = 0;

void* allocate(std::size_t bytes) {
  if (allocations_left == 0) {
    ++failed_allocations;
    allocations_left = stays_out ? 0 : kAll;
    throw std::bad_alloc();
  }
  allocations_left -= allocations_left > 0 ? 1 : 0;
  if (auto* const memory = std::malloc(bytes == 0 ? 1 : bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}

/// Makes the calling thread's `number`-th allocation fail while the guard exists.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t number) : before_(failed_allocations) {
    allocations_left = number - 1;
  }
  FailingAllocation(FailingAllocation const&) = delete;
  FailingAllocation& operator=(FailingAllocation const&) = delete;
  ~FailingAllocation() {
    allocations_left = kAll;
    stays_out = false;
  }
  [[nodiscard]] bool has_failed() const { return failed_allocations != before_; }

 private:
  std::int64_t before_;
};

/// Makes all allocations of the calling thread fail while the guard exists.
class NoMemory : public FailingAllocation {
 public:
  NoMemory() : FailingAllocation(1) { stays_out = true; }
};

}  // namespace
}  // namespace msstream::testing

void* operator new(std::size_t bytes) {
  return msstream::testing::allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return msstream::testing::allocate(bytes);
}
// For memory that the caller can do without, such as that of std::stable_sort().
void* operator new(std::size_t bytes, std::nothrow_t const& /*tag*/) noexcept {
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace msstream::testing {
namespace {

using serve::DeadlineExceeded;
using serve::Outcome;
using serve::Refused;

class ServeBadAllocTest : public ::testing::Test {
 protected:
  using R = Host;

  ServeBadAllocTest()
      : net_(world_.net(1)), asked_(random_, 3), expected_(world_.alone(*net_, asked_)) {}

  [[nodiscard]] static InferencePoolOptions one_slot() {
    auto options = ServeWorld<R>::options();
    options.replicas = 1;
    options.depth = 1;
    return options;
  }
  /// Expects that a query gets the right answer, std::bad_alloc, or a refusal since no replica is
  /// left, and counts the queries without an answer.
  void look_at(std::future<Answer>& answer) {
    try {
      EXPECT_TRUE(same_bits(answer.get().values, expected_));
    } catch (std::bad_alloc const&) {
      ++failed_;
    } catch (Refused const& refused) {
      EXPECT_EQ(refused.reason(), Refused::Reason::no_replica_left);
      ++failed_;
    }
  }

  ServeWorld<R> world_;
  Random random_;
  std::shared_ptr<Net<R>> net_;
  Asked asked_;
  Floats expected_;
  int failed_ = 0;
};

TEST_F(ServeBadAllocTest, refusals_need_no_memory) {
  auto options = one_slot();
  options.queue_capacity = 1;
  serve::InferencePool pool(world_.device, net_, options);
  auto late = asked_.query();
  late.deadline = serve::Clock::now();
  int expired = 0;
  int full = 0;
  int draining = 0;
  serve::Callback const on_late = [&](Outcome const& outcome) {
    EXPECT_THROW(static_cast<void>(outcome.answer()), DeadlineExceeded);
    ++expired;
  };
  auto const counts_as = [](int& count, Refused::Reason reason) {
    return [&count, reason](Outcome const& outcome) {
      try {
        static_cast<void>(outcome.answer());
      } catch (Refused const& refused) {
        count += refused.reason() == reason ? 1 : 0;
      }
    };
  };
  serve::Callback to_full = counts_as(full, Refused::Reason::queue_full);
  serve::Callback to_draining = counts_as(draining, Refused::Reason::draining);
  serve::Callback to_late = on_late;
  std::vector<std::future<Answer>> answers;
  {
    Gate gate;
    hold_all(gate, pool);
    answers.push_back(pool.submit(asked_.query()));
    answers.push_back(pool.submit(asked_.query()));
    NoMemory const out_of_memory;
    pool.submit(late, std::move(to_late));
    pool.submit(asked_.query(), std::move(to_full));
  }
  pool.drain();
  {
    NoMemory const out_of_memory;
    pool.submit(asked_.query(), std::move(to_draining));
  }
  EXPECT_EQ(expired, 1);
  EXPECT_EQ(full, 1);
  EXPECT_EQ(draining, 1);
}

TEST_F(ServeBadAllocTest, whichever_allocation_of_who_submits_fails) {
  for (bool const capture : {true, false}) {
    for (auto const threads : {LaunchThreads::none, LaunchThreads::per_group}) {
      for (bool const waits : {false, true}) {
        bool fires = true;
        for (std::int64_t number = 1; fires; ++number) {
          auto const where =
              fmt::format("capture {}, waits {}, allocation {}", capture, waits, number);
          SCOPED_TRACE(where);
          Watchdog const watchdog([&] { return where; });
          auto options = one_slot();
          options.capture = capture;
          options.launch_threads = threads;
          serve::InferencePool pool(world_.device, net_, options);
          std::vector<std::future<Answer>> answers;
          {
            Gate gate;
            if (waits) {
              hold_all(gate, pool);
              answers.push_back(pool.submit(asked_.query()));
            }
            FailingAllocation const failing(number);
            try {
              answers.push_back(pool.submit(asked_.query()));
            } catch (std::bad_alloc const&) {  // not admitted
            }
            fires = failing.has_failed();
          }
          answers.push_back(pool.submit(asked_.query()));
          for (auto& answer : answers) {
            look_at(answer);
          }
          pool.drain();
          auto const counts = pool.counts();
          EXPECT_EQ(counts.admitted, counts.answered + counts.failed);
          EXPECT_LE(counts.failed, 1U);
          EXPECT_EQ(counts.sound_replicas, 1);
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(failed_, 0);
}

/// Fails each allocation of the poller, which is the thread that replies, takes queries from the
/// queue, and launches them.
TEST_F(ServeBadAllocTest, whichever_allocation_of_the_poller_fails) {
  for (bool const capture : {true, false}) {
    bool fires = true;
    for (std::int64_t number = 1; fires; ++number) {
      auto const where = fmt::format("capture {}, allocation {} of the poller", capture, number);
      SCOPED_TRACE(where);
      Watchdog const watchdog([&] { return where; });
      auto options = one_slot();
      options.capture = capture;
      serve::InferencePool pool(world_.device, net_, options);
      std::optional<FailingAllocation> failing;  // set and reset by the poller
      int right = 0;
      int without_memory = 0;
      auto const look = [&](Outcome const& outcome) {
        if (outcome.has_answer()) {
          right += same_bits(outcome.answer().values, expected_) ? 1 : 0;
        } else {
          ++without_memory;
        }
      };
      {
        Gate gate;
        hold_all(gate, pool);
        pool.submit(asked_.query(), [&](Outcome const& outcome) {
          look(outcome);
          failing.emplace(number);
        });
        pool.submit(asked_.query(), look);
        pool.submit(asked_.query(), look);
        pool.submit(asked_.query(), [&](Outcome const& outcome) {
          fires = failing->has_failed();
          failing.reset();
          look(outcome);
        });
      }
      pool.drain();
      EXPECT_EQ(right + without_memory, 4);
      EXPECT_LE(without_memory, 1);
      EXPECT_EQ(pool.counts().sound_replicas, 1);
      ASSERT_FALSE(HasFailure());
      failed_ += without_memory;
    }
  }
  EXPECT_GT(failed_, 0);
}

}  // namespace
}  // namespace msstream::testing
