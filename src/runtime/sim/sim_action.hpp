// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/runtime.hpp>

#include <fmt/core.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace msstream::sim {

/// The number of a stream in its simulation, in the order of creation.
using StreamNumber = std::uint32_t;

/// A point in a stream: the end of the stream's first `count` actions. An event represents such a
/// point.
struct Point {
  StreamNumber stream = 0;
  std::uint64_t count = 0;

  friend bool operator==(Point, Point) = default;
};

[[nodiscard]] inline std::string to_string(Point point) {
  return fmt::format("action {} of stream {}", point.count, point.stream);
}

/// Returns whether the order of the two uses of memory matters: they share a byte, and either one
/// of them writes, or one accumulates and the other reads.
[[nodiscard]] inline bool conflict(MemoryUse const& a, MemoryUse const& b) noexcept {
  auto const begin_of = [](MemoryUse const& use) {
    return reinterpret_cast<std::uintptr_t>(use.begin);
  };
  bool const matters =
      a.mode == AccessMode::write || b.mode == AccessMode::write || a.mode != b.mode;
  return matters && begin_of(a) < begin_of(b) + b.bytes && begin_of(b) < begin_of(a) + a.bytes;
}

/// An action in the queue of a simulated stream.
struct Action {
  enum class Kind : std::uint8_t {
    work,    ///< the CPU version of a kernel, or a host function
    copy,    ///< a copy or a fill
    record,  ///< records a timed event: notes the time
    wait,    ///< waits until `after` is complete
    hold     ///< waits until `*open` is true
  };

  Kind kind;
  CopyKind engine = CopyKind::d2d;
  /// Whether the declared accesses of the action cover all memory that it touches.
  bool declared = true;
  bool host_function = false;  ///< made by call_host(); runs even if the simulation runs no work
  int sms = 0;
  double device_ns = 0;
  std::optional<double> link_ns{};  ///< of a collective: see SimCost::Kernel
  double issued_at_ns = 0;
  Point after{};
  Closure run = [] {};
  /// The operation that the action is part of; null outside every operation.
  OperationHandle operation{};
  MemoryUse own_uses[2]{};
  std::uint8_t own_use_count = 0;
  std::shared_ptr<std::atomic<bool>> open{};

  [[nodiscard]] std::span<MemoryUse const> accesses() const noexcept {
    if (kind == Kind::copy) {
      return {own_uses, own_use_count};
    }
    return kind == Kind::work && operation != nullptr ? std::span<MemoryUse const>(operation->uses)
                                                      : std::span<MemoryUse const>();
  }
  /// Returns whether the action itself touches memory or runs code, rather than only letting later
  /// actions run.
  [[nodiscard]] bool has_effect() const noexcept {
    return kind == Kind::work || kind == Kind::copy;
  }
};

/// A first-in, first-out queue that keeps its allocated memory when it becomes empty.
class ActionQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == actions_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return actions_.size() - head_; }
  [[nodiscard]] Action& front() noexcept { return actions_[head_]; }
  [[nodiscard]] Action const& front() const noexcept { return actions_[head_]; }

  void push(Action&& action) {
    if (head_ > kCompactAfter && head_ * 2 > actions_.size()) {
      actions_.erase(actions_.begin(), actions_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    actions_.push_back(std::move(action));
  }
  /// Removes and returns the front action.
  [[nodiscard]] Action pop() {
    Action action = std::move(actions_[head_]);
    if (++head_ == actions_.size()) {
      actions_.clear();
      head_ = 0;
    }
    return action;
  }

 private:
  static constexpr std::size_t kCompactAfter = 64;

  std::vector<Action> actions_;
  std::size_t head_ = 0;
};

}  // namespace msstream::sim
