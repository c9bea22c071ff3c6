// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/answer.hpp>

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

namespace msstream::load {

/// The first error of a load test. A query that is refused by a full queue, or that expires, is not
/// an error. Thread-safe.
class LoadFailure {
 public:
  /// Returns whether an error has occurred. Clients check it to stop early.
  [[nodiscard]] bool is_there() const noexcept { return is_there_.load(std::memory_order_relaxed); }
  void note(std::exception_ptr error) noexcept {
    std::lock_guard const guard(mutex_);
    first_ = first_ == nullptr ? std::move(error) : first_;
    is_there_.store(true);
  }
  void note_outcome(std::exception_ptr const& error) noexcept {
    try {
      std::rethrow_exception(error);
    } catch (serve::Refused const& refused) {
      if (refused.reason() != serve::Refused::Reason::queue_full) {
        note(error);
      }
    } catch (serve::DeadlineExceeded const&) {
      return;
    } catch (...) {
      note(error);
    }
  }
  void rethrow() const {
    std::lock_guard const guard(mutex_);
    if (first_ != nullptr) {
      std::rethrow_exception(first_);
    }
  }

 private:
  std::atomic<bool> is_there_{false};
  mutable std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace msstream::load
