// SPDX-License-Identifier: Apache-2.0
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

constexpr int kGroups = 8;
constexpr int kThreads = 4;
constexpr int kRounds = 25;
constexpr int kOperationsPerRound = 200;

/// A tensor that must hold `tag` in every byte once all issued operations are complete.
template <Runtime R>
struct Tagged {
  Tensor<std::uint8_t, R> tensor;
  std::uint8_t tag;
};

/// A copy of a tensor to the host, and the tag that it must hold.
template <Runtime R>
struct Check {
  PinnedArray<std::uint8_t, R> copied;
  std::size_t bytes;
  std::uint8_t tag;

  [[nodiscard]] bool holds() const {
    copied.wait();
    return std::all_of(copied.data(), copied.data() + bytes, [&](std::uint8_t& byte) {
      if constexpr (keeps_waits<R>) {
        return byte == tag;
      } else {  // without waits even this read is a race
        return std::atomic_ref(byte).load(std::memory_order_relaxed) == tag;
      }
    });
  }
};

/// Issues random fills, copies, reads and frees on random groups, and counts the reads that saw
/// something else than the tensor's tag: a value of another owner of the same memory, or an earlier
/// or later value of the tensor. Memory is tight, so that blocks move between streams all the time.
template <Runtime R>
class Worker {
 public:
  Worker(Device<R> device, StreamPool<R>& pool, unsigned seed)
      : device_(std::move(device)), pool_(pool), random_(seed) {}

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      Gate gate;
      if constexpr (!std::is_same_v<typename R::stream_ref, CudaStream>) {
        // One stream is blocked and falls behind, so that work that fails to wait for it overtakes
        // it.
        gate.hold(pool_[below(kGroups)].compute());
      }
      for (int i = 0; i < kOperationsPerRound; ++i) {
        StreamScope const scope(pool_[below(kGroups)]);
        operate();
      }
      gate.open();
      for (auto const& check : checks_) {
        wrong += check.holds() ? 0 : 1;
      }
      checked += static_cast<int>(checks_.size());
      checks_.clear();
    }
  }

  int checked = 0;
  int wrong = 0;

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  Tagged<R>& any() { return live_[random_() % live_.size()]; }

  void operate() {
    int const choice = below(10);
    if (live_.empty() || choice < 3) {
      if (auto* const made = make()) {
        fill(*made);
      }
    } else if (choice < 4) {
      fill(any());
    } else if (choice < 6) {
      if (auto* const made = make()) {
        auto const& source = any();
        if (&source != made && source.tensor.count() == made->tensor.count()) {
          copy(made->tensor, source.tensor);
          made->tag = source.tag;
        } else {
          fill(*made);
        }
      }
    } else if (choice < 8) {
      check(any());
    } else {
      drop();
    }
  }

  /// Creates a tensor. If other threads hold all memory, drops one of the own tensors and returns
  /// null.
  Tagged<R>* make() {
    constexpr int sizes[] = {100, 1000, 1000, 3000};
    try {
      Tensor<std::uint8_t, R> tensor(device_, {sizes[below(4)]});
      return &live_.emplace_back(Tagged<R>{std::move(tensor), 0});
    } catch (OutOfMemory const&) {
      drop();
      return nullptr;
    }
  }
  void fill(Tagged<R>& target) {
    target.tag = static_cast<std::uint8_t>(random_());
    fill_bytes(target.tensor, target.tag);
  }
  void check(Tagged<R> const& source) {
    auto const bytes = static_cast<std::size_t>(source.tensor.count());
    PinnedArray<std::uint8_t, R> copied(device_, bytes);
    copy(copied, source.tensor);
    checks_.push_back({copied, bytes, source.tag});
  }
  void drop() {
    if (!live_.empty()) {
      std::swap(any(), live_.back());
      live_.pop_back();
    }
  }

  Device<R> device_;
  StreamPool<R>& pool_;
  std::mt19937 random_;
  std::vector<Tagged<R>> live_;
  std::vector<Check<R>> checks_;
};

struct Outcome {
  int checked = 0;
  int wrong = 0;
  std::uint64_t operations = 0;
  std::uint64_t waiting_reuses = 0;
};

template <Runtime R>
[[nodiscard]] Outcome stress(LaunchThreads launch_threads) {
  Device<R> const device({.memory = {.limit_bytes = 128U << 10U, .max_growth_bytes = 64U << 10U}});
  StreamPool<R> pool(device, {.groups = kGroups, .launch_threads = launch_threads});
  std::vector<Worker<R>> workers;
  for (unsigned seed = 1; seed <= kThreads; ++seed) {
    workers.emplace_back(device, pool, seed);
  }
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&] { worker.run(); });
  }
  Outcome outcome;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads[i].join();
    outcome.checked += workers[i].checked;
    outcome.wrong += workers[i].wrong;
  }
  pool.synchronize();
  outcome.operations = device.operation_count();
  outcome.waiting_reuses = device.memory_statistics().waiting_reuses;
  return outcome;
}

void expect_right(Outcome const& outcome) {
  EXPECT_EQ(outcome.wrong, 0);
  EXPECT_GT(outcome.checked, 1000);
  EXPECT_GT(outcome.operations, 10'000U);
  EXPECT_GT(outcome.waiting_reuses, 100U) << "memory was not tight";
}

template <class R>
class ReuseStress : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ReuseStress, Runtimes, RuntimeNames);

TYPED_TEST(ReuseStress, every_read_sees_its_tensor) {
  expect_right(stress<TypeParam>(LaunchThreads::none));
}
TYPED_TEST(ReuseStress, every_read_sees_its_tensor_with_shared_launch_threads) {
  expect_right(stress<TypeParam>(LaunchThreads::shared));
}
TYPED_TEST(ReuseStress, every_read_sees_its_tensor_with_a_launch_thread_a_group) {
  expect_right(stress<TypeParam>(LaunchThreads::per_group));
}

TEST(ReuseStressWithoutWaits, reads_see_what_others_wrote) {
  EXPECT_GT(stress<HostWithoutWaits>(LaunchThreads::none).wrong, 0);
}

}  // namespace
}  // namespace msstream::testing
