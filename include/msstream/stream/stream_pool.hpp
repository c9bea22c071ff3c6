// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/env.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/stream/stream_assignment.hpp>
#include <msstream/stream/stream_group.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream {

/// Selects the threads that launch operations. none: the thread that issues them; shared: a few
/// threads for all groups; per_group: one thread for each group.
enum class LaunchThreads : std::uint8_t { none, shared, per_group };

/// The ways in which acquire() chooses a group. least_loaded: the fewest leases, then the least
/// outstanding work; sticky: the group that the calling thread had before, at first the least
/// loaded one.
enum class LeasePolicy : std::uint8_t { least_loaded, round_robin, sticky };

struct StreamPoolOptions {
  int groups = static_cast<int>(env::integer("MSSTREAM_STREAM_GROUPS", 1, 1, 256));
  bool merge_streams = env::flag("MSSTREAM_MERGE_STREAMS", false);
  StreamPriority priority = StreamPriority::normal;
  /// The number of equal parts into which the device's multiprocessors are split. The kernels of
  /// group i run on part i mod `sm_partitions`; with 1, on all multiprocessors. Has no effect on a
  /// runtime without multiprocessors.
  int sm_partitions = static_cast<int>(env::integer("MSSTREAM_SM_PARTITIONS", 1, 1, 256));
  LaunchThreads launch_threads = env::choice("MSSTREAM_LAUNCH_THREADS",
                                             LaunchThreads::none,
                                             {{"none", LaunchThreads::none},
                                              {"shared", LaunchThreads::shared},
                                              {"private", LaunchThreads::per_group}});
  /// The number of threads of LaunchThreads::shared; 0 chooses min(groups, 4).
  int launch_thread_count =
      static_cast<int>(env::integer("MSSTREAM_LAUNCH_THREAD_COUNT", 0, 0, 64));
  /// The microseconds for which a launch thread looks for more work before it sleeps. -1 chooses
  /// 200 if the machine has more processors than the pool has launch threads, otherwise 0.
  int launch_spin_us = static_cast<int>(env::integer("MSSTREAM_LAUNCH_SPIN_US", -1, -1, 1'000'000));
  /// The time when groups create their libraries, which have a workspace. when_needed is for groups
  /// that may never compute.
  LibrariesMade libraries = LibrariesMade::at_once;
  LeasePolicy policy = LeasePolicy::least_loaded;
  /// The groups of operations, by operation name. Takes precedence over every StreamScope.
  std::optional<StreamAssignment> assignment = StreamAssignment::from_environment(groups);
  /// Whether an operation outside every scope goes to the group of its first input that was last
  /// written by one of the pool's groups.
  bool propagate_groups = env::flag("MSSTREAM_PROPAGATE_GROUPS", false);
  /// Receives a sentence, when the pool is destroyed, for each line of the assignment that placed
  /// no operation. If null, nothing is reported.
  std::function<void(std::string const&)> log = [](std::string const& line) {
    std::clog << line << std::endl;
  };
};

template <Runtime R>
class StreamPool;

/// A guard that claims a group until it is destroyed.
template <Runtime R = DefaultRuntime>
class StreamLease {
 public:
  StreamLease(StreamLease const&) = delete;
  StreamLease& operator=(StreamLease const&) = delete;
  ~StreamLease() { leases_.fetch_sub(1, std::memory_order_relaxed); }

  [[nodiscard]] StreamGroup<R>& group() const noexcept { return *group_; }
  [[nodiscard]] StreamGroup<R>& operator*() const noexcept { return *group_; }
  [[nodiscard]] StreamGroup<R>* operator->() const noexcept { return group_.get(); }

 private:
  friend class StreamPool<R>;
  StreamLease(std::shared_ptr<StreamGroup<R>> group, std::shared_ptr<std::atomic<int>> leases)
      : group_(std::move(group)), shared_leases_(std::move(leases)), leases_(*shared_leases_) {}

  std::shared_ptr<StreamGroup<R>> group_;
  std::shared_ptr<std::atomic<int>> shared_leases_;
  std::atomic<int>& leases_;
};

/// A Device of runtime R, accepted as a template argument because this header does not include it.
template <class D, class R>
concept HasStreams = Runtime<R> && requires(D const& device) {
  { device.context() } -> std::convertible_to<std::shared_ptr<StreamContext<R>>>;
};

/// The N stream groups of one device. Thread-safe, without a lock; acquire() looks at each group
/// once.
///
/// While it lives, a pool with an assignment or with propagation places the operations of its
/// device; a device can have only one such pool at a time. An operation's group is then the first
/// of these that exists: the group assigned to its name, the group of the innermost StreamScope,
/// the group that wrote its inputs, the device's default group.
template <Runtime R = DefaultRuntime>
class StreamPool {
 public:
  explicit StreamPool(std::shared_ptr<StreamContext<R>> const& context,
                      StreamPoolOptions const& options = {})
      : options_(options) {
    require(options.groups >= 1 && options.groups <= 256,
            "StreamPool: ",
            options.groups,
            " groups; expected 1 to 256");
    require(options.sm_partitions >= 1 && options.sm_partitions <= 256,
            "StreamPool: ",
            options.sm_partitions,
            " partitions of the multiprocessors; expected 1 to 256");
    require(options.launch_thread_count == 0 || options.launch_threads == LaunchThreads::shared,
            "StreamPool: launch_thread_count is for launch_threads = shared; private means one "
            "thread a group");
    require(options.launch_thread_count >= 0 && options.launch_thread_count <= 64,
            "StreamPool: ",
            options.launch_thread_count,
            " launch threads; expected 1 to 64, or 0 to let the pool choose");
    require(options.launch_spin_us >= -1 && options.launch_spin_us <= 1'000'000,
            "StreamPool: launch_spin_us ",
            options.launch_spin_us,
            "; expected 0 to 1000000, or -1 to let the pool choose");
    require(!options.assignment || options.assignment->groups() <= options.groups,
            "StreamPool: an assignment to ",
            options.assignment ? options.assignment->groups() : 0,
            " groups for a pool of ",
            options.groups,
            "; expected one to at most as many");
    bool const per_group = options.launch_threads == LaunchThreads::per_group;
    int const threads = launch_thread_count(options);
    auto const make_launcher = [&](int count) {
      return LaunchPool<R>::make(
          context->tracker,
          LaunchPoolOptions{.threads = count, .spin = launch_spin(options, threads)});
    };
    auto const shared = threads == 0 || per_group ? nullptr : make_launcher(threads);
    for (int i = 0; i < options.groups; ++i) {
      StreamGroupOptions const group_options{
          .merge_streams = options.merge_streams,
          .priority = options.priority,
          .partition = {i % options.sm_partitions, options.sm_partitions},
          .libraries = options.libraries};
      groups_.push_back(
          StreamGroup<R>::make(context, i, group_options, per_group ? make_launcher(1) : shared));
      leases_.push_back(std::make_shared<std::atomic<int>>(0));
    }
    if (options.assignment || options.propagate_groups) {
      auto placement = std::make_shared<Placement<R> const>(
          options.assignment, options.propagate_groups, groups_);
      if (!context->placement.begin(std::move(placement))) {
        throw std::logic_error(
            "StreamPool: another pool of the device places its operations already, by assignment "
            "(MSSTREAM_STREAM_ASSIGNMENT) or propagation (MSSTREAM_PROPAGATE_GROUPS); expected one "
            "such pool a device at a time");
      }
      placed_ = context;
    }
  }
  /// Makes a pool of stream groups of a Device.
  template <HasStreams<R> D>
  explicit StreamPool(D const& device, StreamPoolOptions const& options = {})
      : StreamPool(device.context(), options) {}

  StreamPool(StreamPool const&) = delete;
  StreamPool& operator=(StreamPool const&) = delete;
  ~StreamPool() {
    if (placed_ != nullptr && !placed_->home.is_left()) {
      placed_->placement.end();
      warn_of_unmatched_lines();
    }
  }

  [[nodiscard]] int groups() const noexcept { return static_cast<int>(groups_.size()); }
  /// Returns a group. Throws std::out_of_range if there is no such group.
  [[nodiscard]] StreamGroup<R>& operator[](int index) const {
    if (index < 0 || index >= groups()) {
      throw std::out_of_range(text("StreamPool: group ", index, " asked of a pool of ", groups()));
    }
    return *groups_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] StreamPoolOptions const& options() const noexcept { return options_; }

  /// Claims a group according to the pool's policy.
  [[nodiscard]] StreamLease<R> acquire() { return acquire(options_.policy); }
  [[nodiscard]] StreamLease<R> acquire(LeasePolicy policy) {
    switch (policy) {
      case LeasePolicy::round_robin:
        return claim(next_.fetch_add(1, std::memory_order_relaxed) % groups_.size());
      case LeasePolicy::sticky: {
        auto& choices = sticky_choices();
        auto const mine = std::find_if(choices.begin(), choices.end(), [&](auto const& choice) {
          return choice.pool == identity_;
        });
        if (mine != choices.end()) {
          return claim(mine->index);
        }
        choices.push_back({identity_, 0});
        choices.back().index = claim_least_loaded();
        return lease(choices.back().index);
      }
      case LeasePolicy::least_loaded:
        break;
    }
    return lease(claim_least_loaded());
  }
  /// Returns the number of current leases of a group.
  [[nodiscard]] int leases(int index) const {
    return leases_.at(static_cast<std::size_t>(index))->load();
  }

  /// Blocks the host until all work issued to the pool so far is complete; rethrows its failures.
  void synchronize() {
    InsideWork::refuse_wait("StreamPool::synchronize");
    for (auto const& group : groups_) {
      group->synchronize();
    }
  }

 private:
  void warn_of_unmatched_lines() const noexcept {
    try {
      if (options_.log && options_.assignment && options_.assignment->was_asked()) {
        for (auto const& line : options_.assignment->unmatched_lines()) {
          options_.log(text("msstream: stream pool: no operation matched ", line));
        }
      }
    } catch (...) {  // a failed warning must not end the program
    }
  }

  struct StickyChoice {
    std::uint64_t pool;
    std::size_t index;
  };
  /// Returns the calling thread's group in each pool that it has used with LeasePolicy::sticky.
  static std::vector<StickyChoice>& sticky_choices() {
    static thread_local std::vector<StickyChoice> choices;
    return choices;
  }

  /// Returns the number of launch threads of all groups together.
  static int launch_thread_count(StreamPoolOptions const& options) noexcept {
    switch (options.launch_threads) {
      case LaunchThreads::shared:
        return options.launch_thread_count != 0 ? options.launch_thread_count
                                                : std::min(options.groups, 4);
      case LaunchThreads::per_group:
        return options.groups;
      case LaunchThreads::none:
        break;
    }
    return 0;
  }
  static std::chrono::microseconds launch_spin(StreamPoolOptions const& options, int threads) {
    constexpr int kUsual = 200;
    bool const has_room = static_cast<unsigned>(threads) < std::thread::hardware_concurrency();
    return std::chrono::microseconds(options.launch_spin_us >= 0 ? options.launch_spin_us
                                     : has_room                  ? kUsual
                                                                 : 0);
  }

  StreamLease<R> lease(std::size_t index) { return StreamLease<R>(groups_[index], leases_[index]); }
  StreamLease<R> claim(std::size_t index) {
    leases_[index]->fetch_add(1, std::memory_order_relaxed);
    return lease(index);
  }

  [[nodiscard]] std::uint64_t outstanding(std::size_t index) const {
    auto& compute = groups_[index]->compute();
    return compute.context()->tracker->outstanding(compute.slot());
  }

  /// Counts the claim before it returns, so that two threads do not both claim the last idle group.
  std::size_t claim_least_loaded() {
    while (true) {
      std::size_t best = 0;
      std::tuple<int, std::uint64_t> least{leases_[0]->load(), outstanding(0)};
      for (std::size_t i = 1; i < groups_.size(); ++i) {
        int const out = leases_[i]->load();
        if (out > std::get<0>(least)) {
          continue;
        }
        std::tuple<int, std::uint64_t> const load{out, outstanding(i)};
        if (load < least) {
          best = i;
          least = load;
        }
      }
      int expected = std::get<0>(least);
      if (leases_[best]->compare_exchange_strong(expected, expected + 1)) {
        return best;
      }
    }
  }

  StreamPoolOptions options_;
  std::vector<std::shared_ptr<StreamGroup<R>>> groups_;
  std::vector<std::shared_ptr<std::atomic<int>>> leases_;
  std::shared_ptr<StreamContext<R>> placed_;  ///< device whose operations the pool places, or null
  std::atomic<std::size_t> next_{0};
  static inline std::atomic<std::uint64_t> last_identity_{0};
  std::uint64_t identity_ = ++last_identity_;
};

template <class D>
StreamPool(D const&, StreamPoolOptions = {}) -> StreamPool<typename D::runtime_type>;

MSSTREAM_COMPILED_ONCE(class StreamPool<DefaultRuntime>);

}  // namespace msstream
