// SPDX-License-Identifier: Apache-2.0
#include "base/mechanism.hpp"
#include "base/unheard_failure.hpp"
#include "memory/device/device_state.hpp"
#include "memory/device/open_capture.hpp"

#include <msstream/base/error.hpp>
#include <msstream/tensor/detail/any_tensor_holder.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

AnyTensorHolder::~AnyTensorHolder() {
  try {
    release();
  } catch (...) {
    // release() failed, so later uses cannot be ordered after the streams' work: the host waits for
    // the work instead. Failed work counts as complete.
    UnheardFailure const dropped;
    for (auto const& stream : streams_) {
      if (stream->closed() || stream->context()->home.is_left()) {
        // The stream's capture was given up, and its work with it, or this process is a child of
        // fork() and has none of the work.
        continue;
      }
      try {
        stream->context()->runtime->synchronize_stream(stream->native());
      } catch (...) {  // NOLINT(bugprone-empty-catch): failed work needs no wait
      }
    }
  }
}

void AnyTensorHolder::hold(memory::BlockRef const& block,
                           AccessMode mode,
                           std::source_location held_at) {
  auto const& device = **block->device;
  for (auto const& stream : streams_) {
    require(stream->context()->tracker == device.context->tracker,
            "TensorHolder::hold: the tensor's device and the stream's do not share a tracker");
  }
  device.context->home.require_here();
  Held held{block, mode, nullptr, {}, nullptr};
  hold_in_captures(held, held_at);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    order::PositionSet needed;
    auto* const record = held.record(i);
    if (record != nullptr && works(Mechanism::holder_hold)) {
      std::lock_guard const guard(record->lock);
      record->add_hazards(mode, needed);
    }
    streams_[i]->follow(needed);
  }
  if (mode != AccessMode::read) {
    block->shared_outside = true;
  }
  held.observed = announce(block, mode, held_at);
  held_.push_back(std::move(held));
}

void AnyTensorHolder::release() {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    auto& stream = *streams_[i];
    auto& runtime = *stream.context()->runtime;
    stream.mark([&](order::Position position) {
      for (auto const& held : held_) {
        auto* const record = held.record(i);
        // The lock is held during both steps, so a use by another thread is noted either before
        // both or after both.
        std::lock_guard const guard(record != nullptr ? record->lock : held.block->record.lock);
        if (held.observed != nullptr) {
          runtime.foreign_work_ends(held.observed, stream.native());
        }
        if (record != nullptr && works(Mechanism::holder_release)) {
          record->note_foreign(held.mode, position);
        }
      }
    });
    for (auto const& held : held_) {
      if (held.observed != nullptr) {
        runtime.operation_issued(held.observed);
      }
    }
  }
  held_.clear();
}

AccessRecord* AnyTensorHolder::Held::record(std::size_t stream) const {
  return captured.empty() ? &block->record : captured[stream];
}

void AnyTensorHolder::hold_in_captures(Held& held, std::source_location held_at) const {
  bool const captures = std::ranges::any_of(streams_, [](auto const& stream) {
    return stream->slot().capture.load(std::memory_order_relaxed) != nullptr;
  });
  if (!captures) {
    return;
  }
  held.in_captures = std::make_shared<std::string const>(fmt::format(
      "TensorHolder::hold, called at {}:{}: the holder has a tensor on a captured stream "
      "and is still open at the end of the capture; release it inside the captured "
      "function",
      held_at.file_name(),
      held_at.line()));
  for (auto const& stream : streams_) {
    auto* record = &held.block->record;
    if (stream->slot().capture.load(std::memory_order_relaxed) != nullptr) {
      auto& capture = OpenCapture::of_this_thread(*stream->context());
      record = capture.record_of(*held.block, held.mode);
      capture.add_unfinished(held.in_captures);
    }
    held.captured.push_back(record);
  }
}

OperationHandle AnyTensorHolder::announce(memory::BlockRef const& block,
                                          AccessMode mode,
                                          std::source_location held_at) const {
  OperationHandle observed;
  for (auto const& stream : streams_) {
    auto& runtime = *stream->context()->runtime;
    if (!runtime.traits.observes) {
      continue;
    }
    if (observed == nullptr) {
      observed = runtime.declare({NameScope::qualify("work under a TensorHolder"),
                                  {},
                                  held_at,
                                  {},
                                  {{block->data, block->bytes, mode, 0, true}}});
    }
    runtime.foreign_work_begins(observed, stream->native());
  }
  return observed;
}

}  // namespace msstream::detail
