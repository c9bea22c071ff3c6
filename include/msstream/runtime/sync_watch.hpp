// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <memory>

namespace msstream {

/// Whether the calling thread is inside a stream scope or an operation's work, where nothing should
/// make streams wait for each other.
class ConcurrentRegion {
 public:
  ConcurrentRegion() noexcept { enter(); }
  ~ConcurrentRegion() { leave(); }
  ConcurrentRegion(ConcurrentRegion const&) = delete;
  ConcurrentRegion& operator=(ConcurrentRegion const&) = delete;

  static void enter() noexcept { ++depth_; }
  static void leave() noexcept { --depth_; }
  [[nodiscard]] static bool entered() noexcept { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
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
