// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace msstream::overlap::record {

/// The system's numbers of threads, by the low half of pthread_self(), which is what CUPTI has for
/// a thread without a call of the kernel. For use by any thread.
class ThreadNumbers {
 public:
  /// Returns what CUPTI has for the calling thread.
  [[nodiscard]] static std::uint32_t id_of_caller() noexcept {
    return static_cast<std::uint32_t>(pthread_self());
  }

  /// Keeps the number of the calling thread. Calls after a thread's first are cheap.
  void note_caller() {
    static thread_local ThreadNumbers const* noted_by = nullptr;
    if (noted_by != this) {
      noted_by = this;
      std::lock_guard const lock(mutex_);
      numbers_[id_of_caller()] = static_cast<std::uint32_t>(syscall(SYS_gettid));
    }
  }
  /// Returns the number of a thread that was noted, and otherwise its id.
  [[nodiscard]] std::uint32_t of(std::uint32_t id) const {
    std::lock_guard const lock(mutex_);
    auto const found = numbers_.find(id);
    return found == numbers_.end() ? id : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_;
};

}  // namespace msstream::overlap::record
