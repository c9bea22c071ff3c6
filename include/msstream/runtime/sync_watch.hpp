// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <source_location>

namespace msstream {

/// While the guard lives, the calling thread is inside a stream scope or an operation's work, where
/// nothing should make streams wait for each other.
class ConcurrentRegion {
 public:
  /// `checker`: who minds. `opened_at`: where the scope was opened, or the operation issued.
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

  /// The checker of the innermost region; null outside all.
  [[nodiscard]] static Checker* checker() noexcept { return innermost().checker; }
  [[nodiscard]] static std::source_location opened_at() noexcept { return innermost().opened_at; }

 private:
  struct Region {
    Checker* checker;
    std::source_location opened_at;
  };
  /// Of those that are not too deep to be remembered.
  [[nodiscard]] static Region innermost() noexcept {
    return depth_ == 0 ? Region{nullptr, {}} : regions_[std::min(depth_, regions_.size()) - 1];
  }

  static inline constinit thread_local std::size_t depth_ = 0;
  static inline constinit thread_local std::array<Region, 16> regions_{};
};

/// A runtime with a checker that minds what happens inside stream scopes.
template <class R>
concept CheckingRuntime = requires(R const& runtime) {
  { *runtime.checker() } -> std::convertible_to<Checker&>;
};

/// The region of a stream scope; none on a runtime that does not check.
template <class R>
struct ScopeRegion {
  ScopeRegion(R const&, std::source_location) noexcept {}
};
template <CheckingRuntime R>
struct ScopeRegion<R> : ConcurrentRegion {
  ScopeRegion(R const& runtime, std::source_location opened_at) noexcept
      : ConcurrentRegion(*runtime.checker(), opened_at) {}
};

/// While the guard lives, the calling thread's calls into the runtime are msstream's own, and
/// known to it: the growth of a pool is not a user's mistake.
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

/// Who is to be told when the calling thread makes streams or the host wait; null: nobody minds.
[[nodiscard]] inline Checker* sync_listener() noexcept {
  return OwnCall::active() ? nullptr : ConcurrentRegion::checker();
}

/// Has the listener told of calls into a runtime that synchronise implicitly, whoever makes them.
/// A runtime in which there are such calls specialises it.
template <class R>
struct SyncWatch {
  /// Whether such calls are seen, from now on. Any number of calls from any thread.
  static bool start() noexcept { return false; }
};
template <class R>
  requires requires {
    typename R::inner_type;
  }
struct SyncWatch<R> : SyncWatch<typename R::inner_type> {};

}  // namespace msstream
