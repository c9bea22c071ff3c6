// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream.hpp>
#include <msstream/tensor/issue.hpp>

#include <concepts>
#include <mutex>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream {

/// Covers work that the user puts on streams directly, past issue(): before it the streams wait for
/// the held tensors' earlier uses, and after it the tensors' later uses, and the next owners of
/// their memory, wait for the streams.
///
///     TensorHolder holder(stream);
///     holder.hold(weights);
///     my_kernel<<<grid, block, 0, stream.native()>>>(weights.data());
///     // the holder goes: from here on all work on `weights` follows my_kernel
///
/// Going takes one position a stream, no event and no wait, and may happen on any thread. Not
/// synchronised.
template <Runtime R = DefaultRuntime>
class TensorHolder {
 public:
  /// The streams must outlive the holder.
  template <std::same_as<Stream<R>>... Streams>
  explicit TensorHolder(Streams&... streams) : streams_{&streams...} {}
  TensorHolder(TensorHolder const&) = delete;
  TensorHolder& operator=(TensorHolder const&) = delete;
  ~TensorHolder() {
    try {
      release();
    } catch (...) {
      // No position to note, so make the work complete instead; failed work is over.
      for (auto* const stream : streams_) {
        try {
          stream->context()->runtime->synchronize_stream(stream->native());
        } catch (...) {  // NOLINT(bugprone-empty-catch): see above
        }
      }
    }
  }

  /// Keeps the tensor's memory, and makes the streams' next work wait for the tensor's uses so far.
  /// `held_at` is for the reports of a checking runtime.
  template <Tracked T>
  void hold(T const& tracked, std::source_location held_at = std::source_location::current()) {
    held_at_ = held_at;
    for (auto* const stream : streams_) {
      require(stream->context()->tracker == tracked.block()->device->context->tracker,
              "TensorHolder::hold: the tensor's device and the stream's do not share a tracker");
    }
    order::PositionSet needed;
    {
      std::lock_guard const guard(tracked.block()->record.lock);
      tracked.block()->record.log.add_hazards_of_write(needed);
    }
    for (auto* const stream : streams_) {
      auto waits = needed;
      auto& tracker = *stream->context()->tracker;
      tracker.while_idle(stream->slot(), [&] { tracker.order_after(stream->slot(), waits); });
    }
    blocks_.push_back(tracked.block());
  }

  /// Lets go now: notes that all that is on the streams by now may have read and written the
  /// tensors.
  void release() {
    for (auto* const stream : streams_) {
      tell(*stream);
      auto const position = stream->mark();
      for (auto const& block : blocks_) {
        std::lock_guard const guard(block->record.lock);
        block->record.log.note_unordered_write(position);
      }
    }
    blocks_.clear();
  }

 private:
  /// A runtime that looks on gets to know what the stream may have used.
  void tell(Stream<R>& stream) const {
    if constexpr (ObservingRuntime<R>) {
      std::vector<MemoryUse> uses;
      for (auto const& block : blocks_) {
        uses.push_back({block->data, block->bytes, AccessMode::write});
      }
      observe::foreign_work(*stream.context()->runtime,
                            Operation{NameScope::qualify("work under a TensorHolder"),
                                      text("stream ", stream.slot().index),
                                      held_at_,
                                      {},
                                      std::move(uses)},
                            stream.native());
    }
  }

  std::source_location held_at_;
  std::vector<Stream<R>*> streams_;
  std::vector<memory::BlockRef<R>> blocks_;
};

template <Runtime R, class... Rest>
TensorHolder(Stream<R>&, Rest&...) -> TensorHolder<R>;

}  // namespace msstream
