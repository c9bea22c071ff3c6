// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/open_capture.hpp"

#include <msstream/step/gradient_tape.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace msstream::detail {

/// Counts the micro-batches of an optimizer: those since its last update are pending, and the tape
/// has their gradients. Replays are not counted, so all micro-batches of an update are in one
/// capture, or none. Not synchronised.
class MicroBatches {
 public:
  explicit MicroBatches(std::int64_t per_update) noexcept : per_update_(per_update) {}

  [[nodiscard]] std::int64_t per_update() const noexcept { return per_update_; }
  /// Begins a new update: no micro-batch is pending.
  void begin() noexcept {
    pending_ = 0;
    capture_ = kNoCapture;
    unfinished_.reset();
  }
  /// Notes that one more micro-batch is pending, and in which capture. If the capture ends before
  /// the update, it fails.
  void count_one(StreamContext const& device) {
    ++pending_;
    capture_ = current_capture(device);
    if (auto* const capture = OpenCapture::current(device)) {
      unfinished_ = std::make_shared<std::string const>(fmt::format(
          "Optimizer::step: a capture ends after micro-batch {} of {}, so its replays would never "
          "update; capture all micro-batches of an update together",
          pending_,
          per_update_));
      capture->add_unfinished(unfinished_);
    }
  }

  /// Returns whether the tape has the gradients of all micro-batches of an update. Throws
  /// std::logic_error, and begins a new update, unless it has those of the pending ones and of one
  /// more, and unless all are in one capture or outside captures.
  [[nodiscard]] bool is_last(AnyTape const& tape, StreamContext const& device) {
    if (per_update_ == 1) {
      return true;
    }
    if (tape.backward_count() == 1) {
      forget_failed_capture(device);
    }
    require_on_tape(tape, pending_ + 1);
    if (pending_ > 0) {
      require_one_capture(device, pending_ + 1);
    }
    return pending_ + 1 == per_update_;
  }
  /// Returns the number of pending micro-batches. Throws std::logic_error, and begins a new update,
  /// unless the tape has their gradients and no others, and unless this is in their capture.
  [[nodiscard]] std::int64_t pending_of(AnyTape const& tape, StreamContext const& device) {
    if (tape.backward_count() == 0) {
      forget_failed_capture(device);
    }
    if (pending_ > 0) {
      require_on_tape(tape, pending_);
      require_one_capture(device, pending_);
    }
    return pending_;
  }
  /// Throws std::logic_error if micro-batches are pending, but not for those of a capture, which
  /// has failed if this is outside it. The message begins with `call`.
  void require_none(char const* call) const {
    if (pending_ > 0 && capture_ == kNoCapture) {
      throw std::logic_error(fmt::format(
          "{}: {} of {} micro-batches are pending, and only the tape has their gradients; save "
          "after a step() that returns true, apply_micro_batches() or discard_micro_batches()",
          call,
          pending_,
          per_update_));
    }
  }

 private:
  static constexpr std::uint64_t kNoCapture = 0;

  [[nodiscard]] static std::uint64_t current_capture(StreamContext const& device) noexcept {
    auto const* const capture = OpenCapture::current(device);
    return capture == nullptr ? kNoCapture : capture->number();
  }
  /// Begins a new update if the pending ones are of a capture that is over. Their gradients are on
  /// the tape unless it has been cleared.
  void forget_failed_capture(StreamContext const& device) noexcept {
    if (capture_ != kNoCapture && capture_ != current_capture(device)) {
      begin();
    }
  }
  void require_on_tape(AnyTape const& tape, std::int64_t expected) {
    auto const found = tape.backward_count();
    if (found == expected) {
      return;
    }
    begin();
    throw std::logic_error(fmt::format(
        "Optimizer::step: micro-batch {} of {}, and the tape has gradients of {} backward() calls "
        "since clear(); call step() after each backward(), and clear() when step() returns true or "
        "after discard_micro_batches(). The next clear() begins a new update",
        expected,
        per_update_,
        found));
  }
  void require_one_capture(StreamContext const& device, std::int64_t number) {
    auto const capture = current_capture(device);
    if (capture == capture_) {
      return;
    }
    begin();
    throw std::logic_error(fmt::format(
        "Optimizer::step: micro-batch {} of {} is {} a capture, and those before it are not; call "
        "clear(), and capture all micro-batches of an update together",
        number,
        per_update_,
        capture != kNoCapture ? "inside" : "outside"));
  }

  std::int64_t per_update_;
  std::int64_t pending_ = 0;
  std::uint64_t capture_ = kNoCapture;  ///< the number of that of the pending ones
  std::shared_ptr<std::string const> unfinished_;
};

}  // namespace msstream::detail
