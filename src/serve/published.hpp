// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "base/spin_lock.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream::serve {

/// A value that many threads use while one thread may replace it.
///
/// States of a value: current; replaced, while some threads still use it; destroyed. Ownership:
/// this object owns the values. The thread that replaces a value waits until its last use ends and
/// then destroys it, so that no user of the value ever has to. Locking: a spin lock for a few
/// instructions, so each use begins either before a replacement or after it. Memory ordering: a use
/// sees everything written before its value was published.
/// published.
template <class T>
class Published {
 public:
  class Entry {
   public:
    explicit Entry(std::unique_ptr<T> of) noexcept : value(std::move(of)) {}
    std::unique_ptr<T> value;

   private:
    friend class Published;
    int uses_ = 0;  ///< guarded by `lock_`
  };

  explicit Published(std::unique_ptr<T> first)
      : current_(std::make_unique<Entry>(std::move(first))) {}
  Published(Published const&) = delete;
  Published& operator=(Published const&) = delete;

  /// Returns the current value, which stays valid until the caller passes it to release().
  [[nodiscard]] Entry& acquire() noexcept {
    std::lock_guard const guard(lock_);
    ++current_->uses_;
    return *current_;
  }
  void release(Entry& entry) noexcept {
    bool is_over = false;
    {
      std::lock_guard const guard(lock_);
      is_over = --entry.uses_ == 0 && &entry != current_.get();
    }
    if (is_over) {
      std::lock_guard const guard(mutex_);
      over_.notify_all();
    }
  }

  /// Sets the value that acquire() returns from now on. Blocks until the last use of the previous
  /// value has ended, and then destroys that value. Thread-safe.
  void replace(std::unique_ptr<T> value) {
    auto entry = std::make_unique<Entry>(std::move(value));
    {
      std::lock_guard const guard(lock_);
      entry.swap(current_);
    }
    std::unique_lock lock(mutex_);
    if (!detail::works(detail::Mechanism::serve_version_kept)) {
      entry->value.reset();
    }
    over_.wait(lock, [&] {
      std::lock_guard const guard(lock_);
      return entry->uses_ == 0;
    });
  }

 private:
  detail::SpinLock lock_;
  std::unique_ptr<Entry> current_;
  std::mutex mutex_;
  std::condition_variable over_;
};

}  // namespace msstream::serve
