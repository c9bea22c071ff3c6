// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/observe.hpp>

#include <optional>
#include <utility>

namespace msstream::detail {

/// A guard. While it lives, queries and waits by the calling thread are reported to the runtime as
/// made by the dependency tracker, not by the program: see observe::OfTracker. Does nothing if no
/// runtime observes the order.
class OnTrackersAccount {
 public:
  [[nodiscard("without a name the guard goes at once")]] explicit OnTrackersAccount(
      bool observes_order) noexcept {
    if (observes_order) [[unlikely]] {
      account_.emplace();
    }
  }
  OnTrackersAccount(OnTrackersAccount const&) = delete;
  OnTrackersAccount& operator=(OnTrackersAccount const&) = delete;

 private:
  std::optional<observe::OfTracker> account_;
};

/// Owns an operation from its declaration to the end of its work. Gives the operation up if this
/// object is destroyed before the work begins. On a runtime that does not observe operations, there
/// is no operation, and this object only runs the work.
class Declared {
 public:
  /// Requires that the runtime outlives this object.
  Declared(Backend& runtime, OperationHandle operation) noexcept
      : runtime_(&runtime), operation_(std::move(operation)) {}
  Declared(Declared&& other) noexcept
      : runtime_(other.runtime_), operation_(std::exchange(other.operation_, nullptr)) {}
  Declared& operator=(Declared&&) = delete;
  ~Declared() {
    if (operation_ != nullptr) [[unlikely]] {
      runtime_->operation_given_up(operation_);
    }
  }

  /// Transfers the operation to the caller, who must run it or give it up.
  [[nodiscard]] OperationHandle release() noexcept { return std::exchange(operation_, nullptr); }

  template <class Work>
  void run(NativeStream stream, Work&& work) {
    if (operation_ == nullptr) [[likely]] {
      std::forward<Work>(work)();
      return;
    }
    runtime_->operation_begins(operation_, stream);
    auto const operation = std::exchange(operation_, nullptr);
    try {
      std::forward<Work>(work)();
    } catch (...) {
      runtime_->operation_ends(operation, stream, Outcome::failed);
      throw;
    }
    runtime_->operation_ends(operation, stream, Outcome::launched);
  }

 private:
  Backend* runtime_;
  OperationHandle operation_;
};

}  // namespace msstream::detail
