// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/stream/stream.hpp>
#include <msstream/tensor/issue.hpp>

#include <concepts>
#include <mutex>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream {

/// Orders work that the user puts directly on streams, without issue(). The streams wait for
/// earlier uses of the held tensors; later uses of the tensors, and the next owners of their
/// memory, wait for the streams.
///
///     TensorHolder holder(stream);
///     holder.hold(weights);
///     my_kernel<<<grid, block, 0, stream.native()>>>(weights.data());
///     // after the holder is destroyed, all work on `weights` follows my_kernel
///
/// Destruction takes one position per stream, no event and no wait, on any thread. Not
/// synchronised.
template <Runtime R = DefaultRuntime>
class TensorHolder {
 public:
  /// Holds tensors for these streams, which must outlive the holder.
  template <std::same_as<Stream<R>>... Streams>
  [[nodiscard("without a name the guard goes at once")]] explicit TensorHolder(Streams&... streams)
      : streams_{&streams...} {}
  TensorHolder(TensorHolder const&) = delete;
  TensorHolder& operator=(TensorHolder const&) = delete;
  ~TensorHolder() {
    try {
      release();
    } catch (...) {
      // There is no position to note, so the work is completed instead; failed work is complete.
      UnheardFailure const dropped;
      for (auto* const stream : streams_) {
        try {
          stream->context()->runtime->synchronize_stream(stream->native());
        } catch (...) {  // NOLINT(bugprone-empty-catch): failed work needs no wait
        }
      }
    }
  }

  /// Keeps the tensor's memory, and makes the streams' next work wait for the tensor's uses so far.
  /// The work may read and write the tensor. With AccessMode::read it may only read; it then waits
  /// for writes alone, and other work may read at the same time. Rethrows a failure on a launch
  /// thread that precedes those uses, and then does not hold the tensor. `held_at` is for the
  /// reports of a checking runtime, which reports two holders on different streams at once that may
  /// both write.
  template <Tracked T>
  void hold(T const& tracked,
            AccessMode mode = AccessMode::write,
            std::source_location held_at = std::source_location::current()) {
    for (auto* const stream : streams_) {
      require(stream->context()->tracker == (*tracked.block()->device)->context->tracker,
              "TensorHolder::hold: the tensor's device and the stream's do not share a tracker");
    }
    (*tracked.block()->device)->context->home.require_here();
    order::PositionSet needed;
    if (works(Mechanism::holder_hold)) {
      std::lock_guard const guard(tracked.block()->record.lock);
      auto const& log = tracked.block()->record.log;
      mode == AccessMode::read ? log.add_hazards_of_read(needed) : log.add_hazards_of_write(needed);
    }
    for (auto* const stream : streams_) {
      auto waits = needed;
      auto& tracker = *stream->context()->tracker;
      tracker.while_idle(stream->slot(), [&] { tracker.order_after(stream->slot(), waits); });
      stream->context()->rethrow(tracker.failure_behind(needed));
    }
    held_.push_back({tracked.block(), mode, announce(*tracked.block(), mode, held_at)});
  }

  /// Releases the tensors now: notes that all work on the streams so far may have used them.
  void release() {
    for (auto* const stream : streams_) {
      auto& tracker = *stream->context()->tracker;
      auto& runtime = *stream->context()->runtime;
      tracker.while_idle(stream->slot(), [&] {
        auto const position = tracker.advance(stream->slot());
        for (auto const& held : held_) {
          // Holds the lock for both steps: a use by another thread is noted before them, or follows
          // them.
          std::lock_guard const guard(held.block->record.lock);
          observe::foreign_work_ends(runtime, held.observed, stream->native());
          if (!works(Mechanism::holder_release)) {
            continue;
          }
          if (held.mode == AccessMode::read) {
            held.block->record.log.note_read(position);
          } else {
            held.block->record.log.note_unordered_write(position);
          }
        }
      });
      for (auto const& held : held_) {
        observe::operation_issued(runtime, held.observed);
      }
    }
    held_.clear();
  }

 private:
  struct Held {
    memory::BlockRef<R> block;
    AccessMode mode;
    [[no_unique_address]] Observed<R> observed;
  };

  /// Announces to an ObservingRuntime that the streams may use the block from now on.
  Observed<R> announce(memory::Block<R> const& block,
                       AccessMode mode,
                       std::source_location held_at) const {
    Observed<R> observed{};
    if constexpr (ObservingRuntime<R>) {
      for (auto* const stream : streams_) {
        auto& runtime = *stream->context()->runtime;
        if (observed == nullptr) {
          observed = runtime.declare({NameScope::qualify("work under a TensorHolder"),
                                      {},
                                      held_at,
                                      {},
                                      {{block.data, block.bytes, mode, 0, true}}});
        }
        runtime.foreign_work_begins(observed, stream->native());
      }
    }
    return observed;
  }

  std::vector<Stream<R>*> streams_;
  std::vector<Held> held_;
};

template <Runtime R, class... Rest>
TensorHolder(Stream<R>&, Rest&...) -> TensorHolder<R>;

}  // namespace msstream
