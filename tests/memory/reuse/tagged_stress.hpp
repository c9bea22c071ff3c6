// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/pinned_array.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {

/// The words that a kernel of the stress test accesses: every `stride`-th of `count` words, after
/// `delay_ns`.
struct TaggedWords {
  std::int64_t* words;
  std::int64_t count;
  std::int64_t stride;
  std::int64_t delay_ns;
};

/// The kernels of the stress test for runtimes whose streams run on the host. They access words
/// through atomics, because they race on purpose when waits are left out.
struct HostTagKernels {
  static void write(HostStream stream, TaggedWords to, std::int64_t tag) {
    stream.run(
        [=] { for_each_word(to, [&](auto word) { word.store(tag, std::memory_order_relaxed); }); });
  }
  static void copy(HostStream stream, TaggedWords to, std::int64_t* from) {
    stream.run([=] {
      std::int64_t i = 0;
      for_each_word(to, [&](auto word) {
        word.store(std::atomic_ref(from[i]).load(std::memory_order_relaxed),
                   std::memory_order_relaxed);
        i += to.stride;
      });
    });
  }
  /// Adds 1 to `mismatches` for each word that is not the tag.
  static void check(HostStream stream, TaggedWords of, std::int64_t tag, std::int64_t* mismatches) {
    stream.run([=] {
      for_each_word(of, [&](auto word) {
        if (word.load(std::memory_order_relaxed) != tag) {
          std::atomic_ref(*mismatches).fetch_add(1, std::memory_order_relaxed);
        }
      });
    });
  }

 private:
  template <class Visit>
  static void for_each_word(TaggedWords const& of, Visit&& visit) {
    auto const begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::nanoseconds(of.delay_ns)) {
    }
    for (std::int64_t i = 0; i < of.count; i += of.stride) {
      visit(std::atomic_ref(of.words[i]));
    }
  }
};

struct StressOptions {
  std::int64_t operations;  ///< minimum, of all threads together
  std::size_t limit_bytes;
  std::size_t growth_bytes;
  std::vector<std::int64_t> word_counts;  ///< sizes of tensors
  std::int64_t most_delay_ns = 10'000;
};

struct StressOutcome {
  std::int64_t operations = 0;
  std::int64_t checks = 0;
  std::int64_t mismatches = 0;
  std::uint64_t waiting_reuses = 0;
};

/// One thread of the stress test. It creates, fills, copies, checks and drops its own tensors, each
/// on a random one of the streams that all threads share.
template <Runtime R, class Kernels>
class StressThread {
 public:
  StressThread(Device<R> device,
               StreamPool<R>& pool,
               StressOptions const& options,
               unsigned seed,
               std::int64_t* mismatches)
      : device_(std::move(device)),
        pool_(pool),
        options_(options),
        mismatches_(mismatches),
        next_tag_(std::int64_t{seed} << 40U),
        random_(seed) {}

  void run(std::int64_t operations) {
    while (outcome.operations < operations) {
      // Keeps the thread at most two rounds ahead of the streams.
      order::Position const before_last = std::exchange(last_but_one_, last_);
      if (before_last.number != 0) {
        device_.context()->tracker->synchronize(before_last);
      }
      for (int i = 0; i < kOperationsPerRound; ++i) {
        StreamScope const scope(pool_[static_cast<int>(below(pool_.groups()))]);
        operate();
      }
    }
    live_.clear();
  }

  StressOutcome outcome;

 private:
  static constexpr int kOperationsPerRound = 200;
  static constexpr std::size_t kMostLive = 40;
  static constexpr std::int64_t kWordsWithoutStride = 1024;
  static constexpr std::int64_t kStride = 512;  // for larger tensors: one word per page

  /// A tensor that must hold `tag` in each word once all issued operations are complete.
  struct Tagged {
    Tensor<std::int64_t, R> tensor;
    std::int64_t tag;
  };

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  Tagged& any() { return live_[random_() % live_.size()]; }

  void operate() {
    auto const choice = below(10);
    if (live_.empty() || choice < 3) {
      make();
    } else if (choice < 4) {
      write(any());
    } else if (choice < 6) {
      copy_of(any());
    } else if (choice < 8) {
      check(any());
    } else {
      drop();
    }
    if (live_.size() > kMostLive) {
      drop();
    }
  }
  void make() {
    if (auto tensor = allocate(options_.word_counts[random_() % options_.word_counts.size()])) {
      write(live_.emplace_back(Tagged{std::move(*tensor), 0}));
    }
  }
  /// Allocates a tensor. If other threads hold all memory, drops one of the own tensors and returns
  /// nothing.
  std::optional<Tensor<std::int64_t, R>> allocate(std::int64_t words) {
    try {
      return Tensor<std::int64_t, R>(device_, {words});
    } catch (OutOfMemory const&) {
      drop();
      return std::nullopt;
    }
  }
  void write(Tagged& target) {
    target.tag = ++next_tag_;
    issued(issue(
        "write", writes(target.tensor), [=, to = words_of(target), tag = target.tag](auto stream) {
          Kernels::write(stream, to, tag);
        }));
  }
  void copy_of(Tagged const& some) {
    Tagged const source = some;  // a copy, because allocate() may drop the original
    if (auto tensor = allocate(source.tensor.count())) {
      auto const& made = live_.emplace_back(Tagged{std::move(*tensor), source.tag});
      issued(issue("copy",
                   reads(source.tensor),
                   writes(made.tensor),
                   [to = words_of(made), from = source.tensor.data()](auto stream) {
                     Kernels::copy(stream, to, from);
                   }));
    }
  }
  void check(Tagged const& source) {
    issued(issue("check",
                 reads(source.tensor),
                 [of = words_of(source), tag = source.tag, mismatches = mismatches_](auto stream) {
                   Kernels::check(stream, of, tag, mismatches);
                 }));
    ++outcome.checks;
  }
  void drop() {
    if (!live_.empty()) {
      std::swap(any(), live_.back());
      live_.pop_back();
    }
  }
  TaggedWords words_of(Tagged const& tagged) {
    auto const count = tagged.tensor.count();
    return {tagged.tensor.data(),
            count,
            count <= kWordsWithoutStride ? 1 : kStride,
            below(2) * below(options_.most_delay_ns)};
  }
  void issued(order::Position position) {
    last_ = position;
    ++outcome.operations;
  }

  Device<R> device_;
  StreamPool<R>& pool_;
  StressOptions const& options_;
  std::int64_t* mismatches_;
  std::int64_t next_tag_;
  std::mt19937_64 random_;
  std::vector<Tagged> live_;
  order::Position last_{};
  order::Position last_but_one_{};
};

/// Runs random operations of four threads on eight streams, with kernels that take random times, in
/// memory so tight that it moves between streams all the time. Tags are unique, and checked on the
/// device: a mismatch is a value of another owner of the same memory, or an earlier or later value
/// of the tensor. Nothing waits for a check.
template <Runtime R, class Kernels>
[[nodiscard]] StressOutcome tagged_stress(StressOptions const& options) {
  constexpr int kGroups = 8;
  constexpr unsigned kThreads = 4;
  DeviceOptions<R> device_options;
  device_options.memory.limit_bytes = options.limit_bytes;
  device_options.memory.soft_limit_bytes = 1;  // reuses other streams' memory before fresh memory
  device_options.memory.max_growth_bytes = options.growth_bytes;
  device_options.memory.wait_for_frees = std::chrono::milliseconds(1);
  Device<R> const device(device_options);
  StreamPool<R> pool(
      device, {.groups = kGroups, .merge_streams = true, .launch_threads = LaunchThreads::none});
  PinnedArray<std::int64_t, R> const mismatches(device, 1);
  mismatches.elements()[0] = 0;

  std::vector<StressThread<R, Kernels>> stress;
  for (unsigned seed = 1; seed <= kThreads; ++seed) {
    stress.emplace_back(device, pool, options, seed, mismatches.data());
  }
  {
    std::vector<std::jthread> threads;
    for (auto& one : stress) {
      threads.emplace_back([&] { one.run((options.operations + kThreads - 1) / kThreads); });
    }
  }
  pool.synchronize();
  StressOutcome outcome;
  for (auto const& one : stress) {
    outcome.operations += one.outcome.operations;
    outcome.checks += one.outcome.checks;
  }
  outcome.mismatches = mismatches.const_elements()[0];
  outcome.waiting_reuses = device.memory_statistics().waiting_reuses;
  return outcome;
}

/// Expects that each operation saw the tags of its own tensors, in memory that was tight.
inline void expect_own_tags(StressOutcome const& outcome, StressOptions const& options) {
  EXPECT_EQ(outcome.mismatches, 0);
  EXPECT_GE(outcome.operations, options.operations);
  EXPECT_GT(outcome.checks, outcome.operations / 5);
  // As many an operation as 100 of the 300,000 that are run at night.
  auto const fewest = std::min<std::int64_t>(100, options.operations / 3000);
  EXPECT_GT(outcome.waiting_reuses, static_cast<std::uint64_t>(fewest)) << "memory was not tight";
}

/// Returns options for small blocks, which are parts of slabs, under a limit so low that memory
/// comes in separate pieces.
[[nodiscard]] inline StressOptions stress_of_small_blocks(std::int64_t operations) {
  return {operations, std::size_t{256} << 10U, std::size_t{64} << 10U, {16, 100, 128, 400}};
}
/// Returns options for small blocks in one piece of memory that stays as long as the device. A
/// program whose ordering is switched off could otherwise use memory that has gone back to the
/// runtime.
[[nodiscard]] inline StressOptions stress_without_order() {
  auto options = stress_of_small_blocks(20'000);
  options.growth_bytes = options.limit_bytes;
  return options;
}
/// Returns options for large blocks that are split and joined, mixed with small ones, under a limit
/// for which memory is mapped in pages.
[[nodiscard]] inline StressOptions stress_of_large_blocks(std::int64_t operations) {
  return {operations,
          std::size_t{96} << 20U,
          std::size_t{8} << 20U,
          {100, 400, 150'000, 200'000, 350'000, 1'000'000}};
}

}  // namespace msstream::testing
