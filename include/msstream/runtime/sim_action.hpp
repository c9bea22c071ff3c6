// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/base/text.hpp>
#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/runtime.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace msstream::sim {

/// Which stream of a simulation, in the order in which they were made.
using StreamNumber = std::uint32_t;

/// The actions of a stream up to number `count`, which is what an event stands for.
struct Point {
  StreamNumber stream = 0;
  std::uint64_t count = 0;

  friend bool operator==(Point, Point) = default;
  [[nodiscard]] std::string describe() const {
    return text("action ", count, " of stream ", stream);
  }
};

/// Whether the two share a byte, and one of them writes or only one of them adds.
[[nodiscard]] inline bool conflict(MemoryUse const& a, MemoryUse const& b) noexcept {
  auto const begin_of = [](MemoryUse const& use) {
    return reinterpret_cast<std::uintptr_t>(use.begin);
  };
  bool const matters =
      a.mode == AccessMode::write || b.mode == AccessMode::write || a.mode != b.mode;
  return matters && begin_of(a) < begin_of(b) + b.bytes && begin_of(b) < begin_of(a) + a.bytes;
}

/// One entry of a stream.
struct Action {
  enum class Kind : std::uint8_t {
    work,    ///< a kernel's twin or a host call
    copy,    ///< a copy or a fill
    record,  ///< of a timed event: notes the time
    wait,    ///< for `after`
    hold     ///< until `*open`
  };

  Kind kind;
  CopyKind engine = CopyKind::d2d;
  /// Whether accesses() is all that it touches.
  bool declared = true;
  bool host_function = false;  ///< of call_host, which runs also where work does not
  int sms = 0;
  double device_ns = 0;
  double issued_at_ns = 0;
  Point after{};
  Closure run = [] {};
  /// The operation that it is part of; null outside every operation.
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
  /// Whether it does something that others can see, apart from letting what comes after it run.
  [[nodiscard]] bool has_effect() const noexcept {
    return kind == Kind::work || kind == Kind::copy;
  }
};

/// First in, first out; keeps its memory when it runs empty.
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
  /// Removes and returns the front.
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
