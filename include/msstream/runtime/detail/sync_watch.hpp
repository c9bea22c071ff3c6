// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <source_location>

namespace msstream::detail {

/// A guard. While it lives, the calling thread is inside a stream scope or an operation's work,
/// where no call should make streams wait for each other.
class ConcurrentRegion {
 public:
  /// Begins the region. `checker` receives the findings; `opened_at` is the location where the
  /// scope was opened or the operation issued.
  [[nodiscard("without a name the guard goes at once")]] ConcurrentRegion(
      Checker& checker, std::source_location opened_at) noexcept {
    enter(checker, opened_at);
  }
  ~ConcurrentRegion() { leave(); }
  ConcurrentRegion(ConcurrentRegion const&) = delete;
  ConcurrentRegion& operator=(ConcurrentRegion const&) = delete;

  static void enter(Checker& checker, std::source_location opened_at) noexcept {
    if (depth_ < regions_.size()) {
      regions_[depth_] = {&checker, opened_at};
    }
    ++depth_;
  }
  static void leave() noexcept { --depth_; }

  /// Returns the checker of the calling thread's innermost region; null outside all regions.
  [[nodiscard]] static Checker* checker() noexcept { return innermost().checker; }
  [[nodiscard]] static std::source_location opened_at() noexcept { return innermost().opened_at; }

 private:
  struct Region {
    Checker* checker;
    std::source_location opened_at;
  };
  /// Returns the calling thread's innermost region. At more than 16 nested regions, returns the
  /// 16th.
  [[nodiscard]] static Region innermost() noexcept {
    return depth_ == 0 ? Region{nullptr, {}} : regions_[std::min(depth_, regions_.size()) - 1];
  }

  static inline constinit thread_local std::size_t depth_ = 0;
  static inline constinit thread_local std::array<Region, 16> regions_{};
};

/// A guard. While it lives, the calling thread's calls into the runtime are msstream's own and are
/// not reported: the growth of a pool is not a mistake of the user.
class OwnCall {
 public:
  [[nodiscard("without a name the guard goes at once")]] OwnCall() noexcept { ++depth_; }
  ~OwnCall() { --depth_; }
  OwnCall(OwnCall const&) = delete;
  OwnCall& operator=(OwnCall const&) = delete;

  [[nodiscard]] static bool active() noexcept { return depth_ > 0; }

 private:
  static inline constinit thread_local int depth_ = 0;
};

/// Returns the checker that reports the calling thread's calls that make streams or the host wait.
/// Null if the thread may make such calls now.
[[nodiscard]] inline Checker* sync_listener() noexcept {
  return OwnCall::active() ? nullptr : ConcurrentRegion::checker();
}

/// Reports calls into a runtime that synchronise implicitly, made by any code, to the checker that
/// sync_listener() returns. Specialised for runtimes that have such calls.
template <class R>
struct SyncWatch {
  /// Starts to observe the runtime's calls. Returns whether calls that synchronise implicitly are
  /// seen from now on. May be called any number of times, from any thread.
  static bool start() noexcept { return false; }
};
template <class R>
  requires requires {
    typename R::inner_type;
  }
struct SyncWatch<R> : SyncWatch<typename R::inner_type> {};

}  // namespace msstream::detail
