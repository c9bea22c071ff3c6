// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/access_log.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/stream_assignment.hpp>
#include <msstream/trace/name_scope.hpp>

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

namespace msstream {

template <Runtime R>
class StreamGroup;

/// How a pool chooses the group of each operation of its device: by a file, by who wrote the
/// operation's inputs, or both. Immutable, and so thread-safe.
template <Runtime R>
class Placement {
 public:
  using Groups = std::vector<std::shared_ptr<StreamGroup<R>>>;

  Placement(std::optional<StreamAssignment> assignment, bool propagate, Groups groups)
      : assignment_(std::move(assignment)), propagate_(propagate), groups_(std::move(groups)) {
    for (auto const& group : groups_) {
      for (auto* const stream : {&group->compute(), &group->h2d(), &group->d2h()}) {
        auto const& slot = stream->slot();
        // Numbers up to here are those of an earlier stream in the same place.
        streams_.push_back({slot.index, slot.reserved.load(), group.get()});
      }
    }
  }

  /// The group that the file gives the operation of this name, the calling thread's name scopes
  /// before it; null: none.
  [[nodiscard]] StreamGroup<R>* by_name(char const* name) const {
    if (!assignment_) {
      return nullptr;
    }
    auto const group = NameScope::is_open() ? assignment_->group_of(NameScope::qualify(name))
                                            : assignment_->group_of(name);
    return group ? groups_[static_cast<std::size_t>(*group)].get() : nullptr;
  }
  /// Whether operations that nothing else places go where their inputs were written.
  [[nodiscard]] bool propagates() const noexcept { return propagate_; }
  /// The group of the pool that last wrote what the log is of; null: none. The caller holds the
  /// log's lock.
  [[nodiscard]] StreamGroup<R>* writer(order::AccessLog const& log) const noexcept {
    for (auto const& write : log.writes()) {
      for (auto const& stream : streams_) {
        if (stream.index == write.stream && write.number > stream.numbers_before) {
          return stream.group;
        }
      }
    }
    return nullptr;
  }
  /// Notes the calling thread's latest operation, and where it was placed; null: where nothing
  /// placed it.
  void note_latest(char const* name, StreamGroup<R>* group) const {
    std::hash<std::string_view> const hash;
    latest().note(identity_, 31 * hash(NameScope::current()) + hash(name), group);
  }
  /// Where the calling thread's next operation is likely to be placed: where the one was that came
  /// after the latest two the last time, since steps repeat, else where the latest was. Null also
  /// where this placement noted nothing on the thread.
  [[nodiscard]] StreamGroup<R>* expected() const { return latest().expected(identity_); }
  [[nodiscard]] bool contains(StreamGroup<R> const& group) const noexcept {
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
    StreamGroup<R>* group;
  };

  /// Of one thread and one placement, the latest to note something.
  class Latest {
   public:
    void note(std::uint64_t placement, std::size_t name, StreamGroup<R>* group) {
      if (placement_ != placement || followers_.size() >= kMostRemembered) {
        followers_.clear();
        placement_ = placement;
        latest_name_ = 0;
        pair_ = 0;
      }
      followers_[pair_] = group;
      pair_ = latest_name_ * 31 + name;
      latest_name_ = name;
      group_ = group;
    }
    [[nodiscard]] StreamGroup<R>* expected(std::uint64_t placement) const {
      if (placement_ != placement) {
        return nullptr;
      }
      auto const found = followers_.find(pair_);
      return found == followers_.end() ? group_ : found->second;
    }

   private:
    static constexpr std::size_t kMostRemembered = std::size_t{1} << 14U;

    std::uint64_t placement_ = 0;
    std::size_t latest_name_ = 0;
    std::size_t pair_ = 0;  ///< the latest two names
    StreamGroup<R>* group_ = nullptr;
    std::unordered_map<std::size_t, StreamGroup<R>*> followers_;
  };
  static Latest& latest() {
    thread_local Latest latest;
    return latest;
  }
  static inline std::atomic<std::uint64_t> last_identity_{0};

  std::uint64_t identity_ = ++last_identity_;
  std::optional<StreamAssignment> assignment_;
  bool propagate_;
  Groups groups_;
  std::vector<PlacedStream> streams_;
};

}  // namespace msstream
