// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/observe.hpp>

#include <optional>
#include <utility>

namespace msstream::detail {

/// A guard. While it lives, the calling thread queries the runtime and waits on behalf of the
/// tracker: see observe::OfTracker. Does nothing if no runtime observes the order.
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

/// An operation from its declaration to the end of its work. If it is destroyed before its work
/// begins, gives the operation up. Without an operation, on a runtime that does not observe, it
/// only runs the work.
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

  /// Hands the operation over: whoever takes it must run it or give it up.
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
