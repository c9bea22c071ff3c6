// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/open_capture.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace msstream::detail {

/// The count of the backward() calls of an update, and the capture that they are in. Replays are
/// not counted, so all of an update are in one capture, or none.
class MicroBatches {
 public:
  explicit MicroBatches(std::int64_t of_update) : of_update_(of_update) {}

  /// Returns whether a tape with the gradients of `found` calls has those of a whole update. Throws
  /// std::logic_error if it misses those of an earlier call, and if the earlier ones are not in the
  /// capture, or outside captures, as this one.
  [[nodiscard]] bool are_complete(std::int64_t found, StreamContext const& device) {
    if (of_update_ == 1) {
      return true;
    }
    auto const* const capture = OpenCapture::current(device);
    if (found == 1 && unfinished_ != nullptr && capture != capture_) {
      finish();  // the capture of the earlier ones failed, and the tape has been cleared
    }
    if (found != before_ + 1) {
      throw std::logic_error(fmt::format(
          "Optimizer::step: micro-batch {} of {}, and the tape has gradients of {} backward() "
          "calls "
          "since clear(); call step() after each backward(), and clear() when step() returns true",
          before_ + 1,
          of_update_,
          found));
    }
    if (before_ > 0 && capture != capture_) {
      throw std::logic_error(fmt::format(
          "Optimizer::step: micro-batch {} of {} is {} a capture, and those before it are not; "
          "capture all micro-batches of an update together",
          before_ + 1,
          of_update_,
          capture != nullptr ? "inside" : "outside"));
    }
    return found == of_update_;
  }
  /// Notes that one more micro-batch is on the tape, without an update.
  void add(StreamContext const& device) {
    ++before_;
    auto* const capture = OpenCapture::current(device);
    capture_ = capture;
    if (capture != nullptr) {
      unfinished_ = std::make_shared<std::string const>(fmt::format(
          "Optimizer::step: a capture ends after micro-batch {} of {}, so its replays would never "
          "update; capture all micro-batches of an update together",
          before_,
          of_update_));
      capture->add_unfinished(unfinished_);
    }
  }
  /// Begins the next update.
  void finish() noexcept {
    before_ = 0;
    capture_ = nullptr;
    unfinished_.reset();
  }

 private:
  std::int64_t of_update_;
  std::int64_t before_ = 0;  ///< micro-batches since the last update
  OpenCapture const* capture_ = nullptr;
  std::shared_ptr<std::string const> unfinished_;
};

}  // namespace msstream::detail
