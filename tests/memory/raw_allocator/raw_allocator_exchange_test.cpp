// SPDX-License-Identifier: Apache-2.0
// Tests RawAllocator with memory that moves between many threads and streams.
#include "memory/raw_allocator/raw_allocator_fixture.hpp"
#include "memory/run_threads.hpp"

#include <msstream/memory/device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

/// Runs threads that allocate memory on their streams, pass it to each other, and deallocate it on
/// a stream that used it. Each use writes a tag and then reads it back on the same stream.
template <class R>
class Exchange {
 public:
  static constexpr int kThreads = 16;
  static constexpr int kRounds = 60;

  Exchange() : device_(device_of_blocks<R>(6)), memory_(device_) {
    for (int i = 0; i < kThreads; ++i) {
      streams_.push_back(runtime().create_stream(StreamPriority::normal));
    }
  }
  ~Exchange() {
    for (auto const stream : streams_) {
      runtime().synchronize_stream(stream);
      runtime().destroy_stream(stream);
    }
    for (auto const& check : checks_) {
      runtime().free_pinned(check.copied, kPart);
    }
  }
  Exchange(Exchange const&) = delete;
  Exchange& operator=(Exchange const&) = delete;

  /// Runs all threads and returns how many reads saw bytes of another user of the memory.
  int wrong() {
    run_threads(kThreads, [this](int i) { run(static_cast<unsigned>(i)); });
    for (auto const& [memory, stream] : passed_on_) {
      memory_.deallocate(memory, stream);
    }
    for (auto const stream : streams_) {
      runtime().synchronize_stream(stream);
    }
    EXPECT_EQ(device_.memory_statistics().live_bytes, 0U);
    return static_cast<int>(std::count_if(checks_.begin(), checks_.end(), [](auto const& check) {
      return !std::all_of(check.copied, check.copied + kPart, [&](std::uint8_t& byte) {
        return std::atomic_ref(byte).load(std::memory_order_relaxed) == check.tag;
      });
    }));
  }

 private:
  using Native = typename R::native_stream;
  static constexpr std::size_t kPart = 512;

  struct Check {
    std::uint8_t* copied;
    std::uint8_t tag;
  };

  [[nodiscard]] R& runtime() const { return device_.runtime(); }

  void run(unsigned seed) {
    std::minstd_rand random(seed + 1);
    auto const stream = streams_[seed];
    std::uint8_t tag = 0;
    for (int round = 0; round < kRounds; ++round) {
      auto const bytes = random() % 3 == 0 ? kBlockBytes : kPart * (1 + random() % 64);
      void* memory = nullptr;
      try {
        memory = memory_.allocate(bytes, 256, stream);
      } catch (OutOfMemory const&) {
        continue;  // the other threads have all memory
      }
      use(memory, stream, static_cast<std::uint8_t>(++tag + 16 * seed));
      auto const what = random() % 3;
      if (what == 0) {
        memory_.deallocate(memory, stream);
      } else if (what == 1) {
        auto const second = streams_[random() % kThreads];
        memory_.record_use(memory, second);
        memory_.deallocate(memory, stream);
      } else {
        pass_on(memory, stream);
      }
    }
  }
  void use(void* memory, Native stream, std::uint8_t tag) {
    auto* const copied = static_cast<std::uint8_t*>(runtime().allocate_pinned(kPart));
    runtime().fill(memory, tag, kPart, stream);
    runtime().copy(copied, memory, kPart, CopyKind::d2h, stream);
    std::lock_guard const guard(mutex_);
    checks_.push_back({copied, tag});
  }
  /// Puts the memory into a queue. A later call, mostly by another thread, deallocates it on the
  /// stream that used it.
  void pass_on(void* memory, Native stream) {
    std::pair<void*, Native> oldest{};
    {
      std::lock_guard const guard(mutex_);
      passed_on_.emplace_back(memory, stream);
      if (passed_on_.size() > 8) {
        oldest = passed_on_.front();
        passed_on_.erase(passed_on_.begin());
      }
    }
    memory_.deallocate(oldest.first, oldest.second);
  }

  Device<R> device_;
  RawAllocator<R> memory_;
  std::vector<Native> streams_;
  std::mutex mutex_;
  std::vector<Check> checks_;
  std::vector<std::pair<void*, Native>> passed_on_;
};

template <class R>
class RawAllocationExchange : public RuntimeTest<R> {};
TYPED_TEST_SUITE(RawAllocationExchange, Runtimes, RuntimeNames);

TYPED_TEST(RawAllocationExchange, sixteen_threads_do_not_disturb_each_other) {
  EXPECT_EQ(Exchange<TypeParam>().wrong(), 0);
}

/// A host runtime that ignores waits, and frees device memory only in its destructor, because work
/// that does not wait may use memory after it is freed.
class HostWithoutWaitsOrFrees : public HostWithoutWaits {
 public:
  using HostWithoutWaits::HostWithoutWaits;
  ~HostWithoutWaitsOrFrees() {
    for (auto* const memory : kept_) {
      HostWithoutWaits::free_device(memory, 0);
    }
  }
  void free_device(void* memory, std::size_t) noexcept {
    std::lock_guard const guard(mutex_);
    kept_.push_back(memory);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> kept_;
};

// Proves that the exchange test notices a missing wait: on a runtime that ignores waits, it must
// fail.
TEST(RawAllocationExchangeWithoutWaits, the_exchange_notices_missing_waits) {
  int wrong = 0;
  for (int tries = 0; tries < 50 && wrong == 0; ++tries) {
    wrong = Exchange<HostWithoutWaitsOrFrees>().wrong();
  }
  EXPECT_GT(wrong, 0);
}

}  // namespace
}  // namespace msstream::testing
