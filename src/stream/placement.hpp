// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "order/access_log.hpp"

#include <msstream/order/position.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/stream_assignment.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

class StreamGroup;

/// Chooses the stream group of each operation of a device, for a stream pool: by an assignment
/// file, by the group that wrote the operation's inputs, or by both. Immutable, and therefore
/// thread-safe.
class Placement {
 public:
  using Groups = std::vector<std::shared_ptr<StreamGroup>>;

  Placement(std::optional<StreamAssignment> assignment, bool propagate, Groups groups);

  /// Returns the group that the assignment file gives to the operation with this name, prefixed by
  /// the calling thread's name scopes; null if the file has no matching line.
  [[nodiscard]] StreamGroup* by_name(char const* name) const {
    if (!assignment_) {
      return nullptr;
    }
    auto const group = NameScope::is_open() ? assignment_->group_of(NameScope::qualify(name))
                                            : assignment_->group_of(name);
    return group ? groups_[static_cast<std::size_t>(*group)].get() : nullptr;
  }
  /// Returns whether an operation that neither its name nor a scope places goes to the group that
  /// wrote its inputs.
  [[nodiscard]] bool propagates() const noexcept { return propagate_; }
  /// Returns the pool's group that last wrote the memory of the log; null if none of the pool's
  /// groups did. The caller holds the log's lock.
  [[nodiscard]] StreamGroup* writer(order::AccessLog const& log) const noexcept {
    for (auto const& write : log.writes()) {
      for (auto const& stream : streams_) {
        if (stream.index == write.stream && write.number > stream.numbers_before) {
          return stream.group;
        }
      }
    }
    return nullptr;
  }
  /// Notes the calling thread's latest operation and its group, for expected(). `group` is null if
  /// the operation was not placed.
  void note_latest(char const* name, StreamGroup* group) const {
    std::hash<std::string_view> const hash;
    auto* const known = learnt();
    (known != nullptr ? *known : begin_to_learn())
        .note(31 * hash(NameScope::current()) + hash(name), group);
  }
  /// Predicts the group of the calling thread's next operation. Since steps repeat, it is the group
  /// of the operation that last followed the two latest ones, otherwise the group of the latest
  /// operation. Returns null if that operation was not placed, or nothing was noted on the thread.
  [[nodiscard]] StreamGroup* expected() const {
    auto const* const known = learnt();
    return known != nullptr ? known->expected() : nullptr;
  }
  [[nodiscard]] bool contains(StreamGroup const& group) const noexcept {
    for (auto const& stream : streams_) {
      if (stream.group == &group) {
        return true;
      }
    }
    return false;
  }

 private:
  struct PlacedStream {
    order::StreamIndex index;
    std::uint64_t numbers_before;
    StreamGroup* group;
  };

  /// The sequence of operations and groups that a thread has issued under one placement.
  struct Learnt {
    static constexpr std::size_t kMostRemembered = std::size_t{1} << 14U;

    explicit Learnt(std::uint64_t identity) : placement(identity) {}

    void note(std::size_t name, StreamGroup* its_group) {
      if (followers.size() >= kMostRemembered) {
        followers.clear();
      }
      followers[pair] = its_group;
      pair = latest_name * 31 + name;
      latest_name = name;
      group = its_group;
    }
    [[nodiscard]] StreamGroup* expected() const {
      auto const found = followers.find(pair);
      return found == followers.end() ? group : found->second;
    }

    std::uint64_t placement;
    std::size_t latest_name = 0;
    std::size_t pair = 0;  ///< a hash of the two latest names
    StreamGroup* group = nullptr;
    std::unordered_map<std::size_t, StreamGroup*> followers;
  };

  /// Returns what the calling thread has noted for this placement; null if nothing. A thread keeps
  /// only the placements that it used most recently, at most 8.
  [[nodiscard]] Learnt* learnt() const {
    auto& all = learnt_by_thread();
    auto const found =
        std::ranges::find(all, identity_, [](auto const& entry) { return entry->placement; });
    if (found == all.end()) {
      return nullptr;
    }
    std::rotate(all.begin(), found, found + 1);
    return all.front().get();
  }
  [[nodiscard]] Learnt& begin_to_learn() const {
    constexpr std::size_t kPlacements = 8;
    auto& all = learnt_by_thread();
    auto fresh = std::make_unique<Learnt>(identity_);
    if (all.size() == kPlacements) {
      all.pop_back();
    }
    return **all.insert(all.begin(), std::move(fresh));
  }
  static std::vector<std::unique_ptr<Learnt>>& learnt_by_thread() {
    thread_local std::vector<std::unique_ptr<Learnt>> all;
    return all;
  }
  static inline std::atomic<std::uint64_t> last_identity_{0};

  std::uint64_t identity_ = ++last_identity_;
  std::optional<StreamAssignment> assignment_;
  bool propagate_;
  Groups groups_;
  std::vector<PlacedStream> streams_;
};

}  // namespace msstream::detail
