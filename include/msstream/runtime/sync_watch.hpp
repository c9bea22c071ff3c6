// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <source_location>

namespace msstream {

/// Whether the calling thread is inside a stream scope or an operation's work, where nothing should
/// make streams wait for each other.
class ConcurrentRegion {
 public:
  /// `opened_at`: where the scope was opened, or the operation issued.
  explicit ConcurrentRegion(std::source_location opened_at) noexcept { enter(opened_at); }
  ~ConcurrentRegion() { leave(); }
  ConcurrentRegion(ConcurrentRegion const&) = delete;
  ConcurrentRegion& operator=(ConcurrentRegion const&) = delete;

  static void enter(std::source_location opened_at) noexcept {
    if (depth_ < opened_.size()) {
      opened_[depth_] = opened_at;
    }
    ++depth_;
  }
  static void leave() noexcept { --depth_; }
  [[nodiscard]] static bool entered() noexcept { return depth_ > 0; }
  /// Where the innermost one was opened, of those that are not too deep to be remembered.
  [[nodiscard]] static std::source_location opened_at() noexcept {
    return entered() ? opened_[std::min(depth_, opened_.size()) - 1] : std::source_location();
  }

 private:
  static inline thread_local std::size_t depth_ = 0;
  static inline thread_local std::array<std::source_location, 16> opened_{};
};

/// While the guard lives, the calling thread's calls into the runtime are msstream's own, and
/// known to it: the growth of a pool is not a user's mistake.
class OwnCall {
 public:
  OwnCall() noexcept { ++depth_; }
  ~OwnCall() { --depth_; }
  OwnCall(OwnCall const&) = delete;
  OwnCall& operator=(OwnCall const&) = delete;

  [[nodiscard]] static bool active() noexcept { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

/// Tells a checker of calls that synchronise implicitly, whoever makes them. A runtime in which
/// there are such calls specialises it.
template <class R>
class SyncWatch {
 public:
  explicit SyncWatch(std::shared_ptr<Checker> const&) {}
};

}  // namespace msstream
