// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/gradient_tape.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>

namespace msstream::detail {

/// Counts the micro-batches of an optimizer: those since its last update are pending, and the tape
/// has their gradients. Not synchronised.
class MicroBatches {
 public:
  explicit MicroBatches(std::int64_t per_update) noexcept : per_update_(per_update) {}

  [[nodiscard]] std::int64_t per_update() const noexcept { return per_update_; }
  /// Begins a new update: no micro-batch is pending.
  void begin() noexcept { pending_ = 0; }
  /// Notes that one more micro-batch is pending.
  void count_one() noexcept { ++pending_; }

  /// Returns whether the tape has the gradients of all micro-batches of an update. Throws
  /// std::logic_error, and begins a new update, unless it has those of the pending ones and of one
  /// more.
  [[nodiscard]] bool is_last(AnyTape const& tape) {
    if (per_update_ == 1) {
      return true;
    }
    require_on_tape(tape, pending_ + 1);
    return pending_ + 1 == per_update_;
  }
  /// Returns the number of pending micro-batches. Throws std::logic_error, and begins a new update,
  /// unless the tape has their gradients and no others.
  [[nodiscard]] std::int64_t pending_of(AnyTape const& tape) {
    if (pending_ > 0) {
      require_on_tape(tape, pending_);
    }
    return pending_;
  }
  /// Throws std::logic_error if micro-batches are pending. The message begins with `call`.
  void require_none(char const* call) const {
    if (pending_ > 0) {
      throw std::logic_error(fmt::format(
          "{}: {} of {} micro-batches are pending, and only the tape has their gradients; save "
          "after a step() that returns true, apply_micro_batches() or discard_micro_batches()",
          call,
          pending_,
          per_update_));
    }
  }

 private:
  void require_on_tape(AnyTape const& tape, std::int64_t expected) {
    auto const found = tape.backward_count();
    if (found == expected) {
      return;
    }
    pending_ = 0;
    throw std::logic_error(fmt::format(
        "Optimizer::step: micro-batch {} of {}, and the tape has gradients of {} backward() calls "
        "since clear(); call step() after each backward(), and clear() when step() returns true or "
        "after discard_micro_batches(). The next clear() begins a new update",
        expected,
        per_update_,
        found));
  }

  std::int64_t per_update_;
  std::int64_t pending_ = 0;
};

}  // namespace msstream::detail
