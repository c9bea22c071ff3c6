// SPDX-License-Identifier: Apache-2.0
#include "base/mechanism.hpp"
#include "base/unheard_failure.hpp"
#include "memory/device/device_state.hpp"

#include <msstream/base/error.hpp>
#include <msstream/tensor/detail/any_tensor_holder.hpp>

#include <mutex>
#include <source_location>

namespace msstream::detail {

AnyTensorHolder::~AnyTensorHolder() {
  try {
    release();
  } catch (...) {
    // There is no position to note, so the work is completed instead; failed work is complete.
    UnheardFailure const dropped;
    for (auto const& stream : streams_) {
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
  order::PositionSet needed;
  if (works(Mechanism::holder_hold)) {
    std::lock_guard const guard(block->record.lock);
    block->record.add_hazards(mode, needed);
  }
  for (auto const& stream : streams_) {
    stream->follow(needed);
  }
  held_.push_back({block, mode, announce(block, mode, held_at)});
}

void AnyTensorHolder::release() {
  for (auto const& stream : streams_) {
    auto& runtime = *stream->context()->runtime;
    stream->mark([&](order::Position position) {
      for (auto const& held : held_) {
        // Holds the lock for both steps: a use by another thread is noted before them, or follows
        // them.
        std::lock_guard const guard(held.block->record.lock);
        if (held.observed != nullptr) {
          runtime.foreign_work_ends(held.observed, stream->native());
        }
        if (works(Mechanism::holder_release)) {
          held.block->record.note_foreign(held.mode, position);
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
