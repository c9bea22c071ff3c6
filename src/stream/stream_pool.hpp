// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/stream_group.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/stream/detail/any_stream_pool.hpp>
#include <msstream/stream/stream_assignment.hpp>
#include <msstream/stream/stream_pool_options.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The N stream groups of one device. Thread-safe, without a lock; acquire() looks at each group
/// once.
///
/// While it lives, a pool with an assignment or with propagation places the operations of its
/// device; a device can have only one such pool at a time. An operation's group is then the first
/// of these that exists: the group assigned to its name, the group of the innermost StreamScope,
/// the group that wrote its inputs, the device's default group.
class StreamPool {
 public:
  explicit StreamPool(std::shared_ptr<StreamContext> const& context,
                      StreamPoolOptions const& options = {})
      : options_(options) {
    require(options.groups >= 1 && options.groups <= 256,
            "StreamPool: {} groups; expected 1 to 256",
            options.groups);
    require(options.sm_partitions >= 1 && options.sm_partitions <= 256,
            "StreamPool: {} partitions of the multiprocessors; expected 1 to 256",
            options.sm_partitions);
    require(options.spared_sms >= 0 && options.spared_sms <= 1024,
            "StreamPool: {} spared multiprocessors; expected 0 to 1024",
            options.spared_sms);
    require(options.launch_thread_count == 0 || options.launch_threads == LaunchThreads::shared,
            "StreamPool: launch_thread_count is for launch_threads = shared; per_group means one "
            "thread a group");
    require(options.launch_thread_count >= 0 && options.launch_thread_count <= 64,
            "StreamPool: {} launch threads; expected 1 to 64, or 0 to let the pool choose",
            options.launch_thread_count);
    require(options.launch_spin_us >= -1 && options.launch_spin_us <= 1'000'000,
            "StreamPool: launch_spin_us {}; expected 0 to 1000000, or -1 to let the pool choose",
            options.launch_spin_us);
    require(
        !options.assignment || options.assignment->groups() <= options.groups,
        "StreamPool: an assignment to {} groups for a pool of {}; expected one to at most as many",
        options.assignment ? options.assignment->groups() : 0,
        options.groups);
    bool const per_group = options.launch_threads == LaunchThreads::per_group;
    int const threads = launch_thread_count(options);
    auto const make_launcher = [&](int count) {
      return LaunchPool::make(
          context->tracker,
          LaunchPoolOptions{.threads = count, .spin = launch_spin(options, threads)});
    };
    auto const shared = threads == 0 || per_group ? nullptr : make_launcher(threads);
    for (int i = 0; i < options.groups; ++i) {
      StreamGroupOptions const group_options{
          .merge_streams = options.merge_streams,
          .priority = options.priority,
          .partition = {i % options.sm_partitions, options.sm_partitions, options.spared_sms},
          .libraries = options.libraries};
      groups_.push_back(
          StreamGroup::make(context, i, group_options, per_group ? make_launcher(1) : shared));
      leases_.push_back(std::make_shared<std::atomic<int>>(0));
    }
    if (options.assignment || options.propagate_groups) {
      auto placement =
          std::make_shared<Placement const>(options.assignment, options.propagate_groups, groups_);
      if (!context->placement.begin(std::move(placement))) {
        throw std::logic_error(
            "StreamPool: another pool of the device places its operations already, by assignment "
            "(MSSTREAM_STREAM_ASSIGNMENT) or propagation (MSSTREAM_PROPAGATE_GROUPS); expected one "
            "such pool a device at a time");
      }
      placed_ = context;
    }
  }

  StreamPool(StreamPool const&) = delete;
  StreamPool& operator=(StreamPool const&) = delete;
  /// Blocks the host until the work of the groups' compute streams is complete, even if a group has
  /// other owners.
  ~StreamPool() {
    for (auto const& group : groups_) {
      group->finish();
    }
    if (placed_ != nullptr && !placed_->home.is_left()) {
      placed_->placement.end();
      warn_of_unmatched_lines();
    }
  }

  [[nodiscard]] int groups() const noexcept { return static_cast<int>(groups_.size()); }
  /// Returns a group. Throws std::out_of_range if there is no such group.
  [[nodiscard]] std::shared_ptr<StreamGroup> const& group(int index) const {
    if (index < 0 || index >= groups()) {
      throw std::out_of_range(
          fmt::format("StreamPool: group {} asked of a pool of {}", index, groups()));
    }
    return groups_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] StreamPoolOptions const& options() const noexcept { return options_; }

  /// Leases a group to the caller, chosen by the pool's policy.
  [[nodiscard]] AnyStreamLease acquire() { return acquire(options_.policy); }
  [[nodiscard]] AnyStreamLease acquire(LeasePolicy policy) {
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

  /// Blocks the host until all work issued to the pool's groups so far is complete. Rethrows
  /// failures of the work.
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
          options_.log(fmt::format("msstream: stream pool: no operation matched {}", line));
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

  AnyStreamLease lease(std::size_t index) { return {groups_[index], leases_[index]}; }
  AnyStreamLease claim(std::size_t index) {
    leases_[index]->fetch_add(1, std::memory_order_relaxed);
    return lease(index);
  }

  [[nodiscard]] std::uint64_t outstanding(std::size_t index) const {
    auto& compute = groups_[index]->compute();
    return compute.context()->tracker->outstanding(compute.slot());
  }

  /// Claims the group with the fewest leases and, among equals, the fewest incomplete operations.
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
  std::vector<std::shared_ptr<StreamGroup>> groups_;
  std::vector<std::shared_ptr<std::atomic<int>>> leases_;
  std::shared_ptr<StreamContext> placed_;  ///< the device that the pool places operations of
  std::atomic<std::size_t> next_{0};
  static inline std::atomic<std::uint64_t> last_identity_{0};
  std::uint64_t identity_ = ++last_identity_;
};

}  // namespace msstream::detail
