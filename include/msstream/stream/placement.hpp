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
#include <memory>
#include <optional>
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
  /// Notes where the calling thread's latest operation was placed; null: where nothing placed it.
  void note_latest(StreamGroup<R>* group) const noexcept { latest_ = {identity_, group}; }
  /// What was noted; null also where this placement noted nothing on the thread.
  [[nodiscard]] StreamGroup<R>* latest() const noexcept {
    return latest_.placement == identity_ ? latest_.group : nullptr;
  }
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

  struct Latest {
    std::uint64_t placement = 0;
    StreamGroup<R>* group = nullptr;
  };
  static inline thread_local Latest latest_;
  static inline std::atomic<std::uint64_t> last_identity_{0};

  std::uint64_t identity_ = ++last_identity_;
  std::optional<StreamAssignment> assignment_;
  bool propagate_;
  Groups groups_;
  std::vector<PlacedStream> streams_;
};

}  // namespace msstream
