// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The record of a thread that has opened scope guards (StreamScope, NameScope, Range). The thread
/// and its guards share the record, because another thread may destroy a guard by mistake.
class GuardedThread {
 public:
  /// If another thread has destroyed a guard of the calling thread, closes that guard and throws
  /// std::logic_error, once. Costs two loads otherwise.
  static void refuse_lost(char const* what) {
    auto* const thread = current_;
    if (thread != nullptr && thread->has_lost_.load(std::memory_order_acquire)) [[unlikely]] {
      thread->close_lost(what);
    }
  }

 private:
  template <class Opened>
  friend class ThreadGuards;
  using CloseLost = void (*)() noexcept;

  /// Returns the calling thread's record, or null if the thread is about to end.
  [[nodiscard]] static std::shared_ptr<GuardedThread> of_this_thread() {
    struct Holder {
      ~Holder() {
        current_ = nullptr;
        is_ending_ = true;
      }
      std::shared_ptr<GuardedThread> thread = std::make_shared<GuardedThread>();
    };
    if (is_ending_) {
      return nullptr;
    }
    thread_local Holder const holder;
    current_ = holder.thread.get();
    return holder.thread;
  }
  [[noreturn]] void close_lost(std::string_view what);
  /// Records that the calling thread, which did not open the guard, has destroyed it.
  void lose(char const* kind, std::string_view name, std::source_location opened_at) noexcept;
  /// Logs that the calling thread has destroyed a guard that another thread opened while that
  /// thread was ending.
  static void log_late(char const* kind,
                       std::string_view name,
                       std::source_location opened_at) noexcept;
  void note_lost(std::string message) noexcept;

  static inline constinit thread_local GuardedThread* current_ = nullptr;
  static inline constinit thread_local bool is_ending_ = false;

  std::thread::id const id_ = std::this_thread::get_id();
  std::vector<CloseLost> closers_;  ///< used only by the thread itself
  std::atomic<bool> has_lost_{false};
  std::mutex mutex_;
  std::string message_;
};

/// The calling thread's open scope guards of one kind. Each guard has an entry in the list, which
/// stays valid until both the guard has been destroyed and the thread that opened it has closed it
/// or ended. A guard that another thread destroys therefore leaves neither thread with a dangling
/// pointer.
///
/// States of an entry: open; lost, from the time when another thread has destroyed its guard until
/// the opening thread closes it; over, when its thread has ended. Ownership: the thread and the
/// guard share the entry, and the last of them frees it. The `Opened` object is made and destroyed
/// by the thread that opens the guard.
template <class Opened>
class ThreadGuards {
 public:
  class Entry {
   public:
    [[nodiscard]] Opened const& operator*() const noexcept { return *opened_; }
    [[nodiscard]] Opened const* operator->() const noexcept { return &*opened_; }
    /// Returns the entry of the next enclosing guard, or null if there is none.
    [[nodiscard]] Entry const* outer() const noexcept { return outer_; }

   private:
    friend class ThreadGuards;
    enum class State : std::uint8_t { open, lost, over };

    std::optional<Opened> opened_;
    Entry* outer_ = nullptr;
    /// The record of the thread that opened the guard. Null if the thread was ending.
    std::shared_ptr<GuardedThread> thread_;
    std::source_location opened_at_;
    std::atomic<State> state_{State::open};
    std::atomic<int> owners_{2};
    Entry* next_left_ = nullptr;
  };

  ThreadGuards() = delete;

  /// Returns the entry of the calling thread's innermost guard, or null if there is none.
  [[nodiscard]] static Entry const* innermost() noexcept { return innermost_; }

  template <class... Arguments>
  [[nodiscard]] static Entry* open(std::source_location opened_at, Arguments&&... arguments) {
    auto entry = std::unique_ptr<Entry>(std::exchange(spare_, nullptr));
    if (entry == nullptr) {
      entry = std::make_unique<Entry>();
      entry->thread_ = join_thread();
    }
    entry->opened_.emplace(std::forward<Arguments>(arguments)...);
    entry->opened_at_ = opened_at;
    entry->outer_ = innermost_;
    innermost_ = entry.get();
    return entry.release();
  }
  /// Closes a guard that is being destroyed, on any thread. `kind` and `name` describe the guard in
  /// messages.
  static void close(Entry* entry, char const* kind, std::string_view name) noexcept {
    using State = typename Entry::State;
    if (entry->state_.load() == State::over) {
      release(entry);
      return;
    }
    if (entry->thread_ == nullptr) {
      close_late(entry, kind, name);
      return;
    }
    if (entry->thread_.get() == GuardedThread::current_) {
      unlink(entry);
      recycle(entry);
      return;
    }
    if (entry->state_.exchange(State::lost) == State::open) {
      entry->thread_->lose(kind, name, entry->opened_at_);
    }
    release(entry);
  }

 private:
  static std::shared_ptr<GuardedThread> join_thread() {
    struct End {
      ~End() { leave_thread(); }
    };
    auto thread = GuardedThread::of_this_thread();
    if (thread != nullptr && !has_joined_) {
      thread->closers_.push_back(close_lost);
      thread_local End const end;
      has_joined_ = true;
    }
    return thread;
  }
  /// Closes all guards of the calling thread, which is ending. The guard objects may be destroyed
  /// later.
  static void leave_thread() noexcept {
    while (innermost_ != nullptr) {
      auto* const entry = innermost_;
      unlink(entry);
      entry->state_.store(Entry::State::over);
      release(entry);
    }
    delete std::exchange(spare_, nullptr);
  }
  /// Closes a guard that was opened while its thread was ending, after leave_thread() had run. If
  /// another thread destroys the guard, the entry cannot be freed, because the thread that opened
  /// it may still read it.
  static void close_late(Entry* entry, char const* kind, std::string_view name) noexcept {
    if (is_of_this_thread(entry)) {
      unlink(entry);
      delete entry;
    } else {
      GuardedThread::log_late(kind, name, entry->opened_at_);
      entry->next_left_ = left_.load();
      while (!left_.compare_exchange_weak(entry->next_left_, entry)) {
      }
    }
  }
  [[nodiscard]] static bool is_of_this_thread(Entry const* entry) noexcept {
    Entry const* found = innermost_;
    while (found != nullptr && found != entry) {
      found = found->outer_;
    }
    return found != nullptr;
  }
  static void close_lost() noexcept {
    for (auto* entry = innermost_; entry != nullptr;) {
      auto* const outer = entry->outer_;
      if (entry->state_.load() == Entry::State::lost) {
        unlink(entry);
        release(entry);
      }
      entry = outer;
    }
  }
  /// Removes the entry from the list of the thread's open guards. The entry is normally the
  /// innermost one, except for guards that are members of objects destroyed in another order.
  static void unlink(Entry* entry) noexcept {
    Entry** link = &innermost_;
    while (*link != entry) {
      link = &(*link)->outer_;
    }
    *link = entry->outer_;
    entry->opened_.reset();
  }
  static void recycle(Entry* entry) noexcept {
    if (spare_ != nullptr) {
      delete entry;
    } else {
      spare_ = entry;
    }
  }
  static void release(Entry* entry) noexcept {
    if (entry->owners_.fetch_sub(1) == 1) {
      delete entry;
    }
  }

  static inline constinit thread_local Entry* innermost_ = nullptr;
  static inline constinit thread_local Entry* spare_ = nullptr;
  static inline constinit thread_local bool has_joined_ = false;
  /// The list of entries that close_late() cannot free. It keeps them reachable, so that leak
  /// checkers do not report them.
  static inline std::atomic<Entry*> left_{nullptr};
};

}  // namespace msstream::detail
