// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/group_libraries.hpp"
#include "stream/launch_pool.hpp"
#include "stream/stream.hpp"
#include "stream/stream_context.hpp"
#include "trace/counter.hpp"
#include "trace/numbered_name.hpp"

#include <msstream/base/detail/thread_guards.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>
#include <msstream/runtime/observing.hpp>
#include <msstream/stream/detail/work_ref.hpp>
#include <msstream/stream/stream_kind.hpp>
#include <msstream/trace/detail/stack_range.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::detail {

struct StreamGroupOptions {
  bool merge_streams = false;  ///< one stream for compute and copies
  StreamPriority priority = StreamPriority::normal;
  SmPartition partition = {};  ///< the multiprocessors on which the group's kernels run
  /// The capture to which the group's streams belong; null if their work runs.
  StreamSlot::Capture* capture = nullptr;
  StreamPoolOptions::LibrariesMade libraries = StreamPoolOptions::LibrariesMade::at_once;
  /// The group's name in traces and reports. Empty: "default group" or "group" with the index.
  std::string name = {};
};

/// A compute, an h2d and a d2h stream (or one stream for all three), with the resources that
/// streams of different groups must not share: library handles and a workspace. Thread-safe.
class StreamGroup : public std::enable_shared_from_this<StreamGroup> {
 public:
  /// Makes a group whose destructor, which waits for its work, runs on a separate thread if the
  /// last owner releases the group inside the work of a stream, or inside exit() called from such
  /// work.
  template <class... Arguments>
  [[nodiscard]] static std::shared_ptr<StreamGroup> make(
      std::shared_ptr<StreamContext> const& context, int index, Arguments&&... arguments) {
    return std::shared_ptr<StreamGroup>(
        new StreamGroup(context, index, std::forward<Arguments>(arguments)...),
        [](StreamGroup* group) { RuntimeThread::call_outside([group] { delete group; }); });
  }
  /// Makes the group. If `launcher` is null, the thread that issues an operation also launches it.
  /// If `libraries` is null, the group creates its own library handles.
  StreamGroup(std::shared_ptr<StreamContext> context,
              int index,
              StreamGroupOptions const& options = {},
              std::shared_ptr<LaunchPool> launcher = nullptr,
              std::shared_ptr<GroupLibraries> libraries = nullptr)
      : context_(std::move(context)),
        index_(index),
        name_(!options.name.empty() ? options.name
              : index < 0           ? std::string("default group")
                                    : fmt::format("group {}", index)),
        category_(category_of(name_.c_str())),
        libraries_(libraries != nullptr
                       ? std::move(libraries)
                       : std::make_shared<GroupLibraries>(
                             context_->runtime, context_->libraries, options.libraries)),
        launcher_(std::move(launcher)),
        options_(options),
        compute_(context_,
                 options.priority,
                 identity(StreamKind::compute),
                 options.capture,
                 options.partition) {
    if (!merged()) {
      h2d_ = make_copy_stream(StreamKind::h2d);
      d2h_ = make_copy_stream(StreamKind::d2h);
    }
    if (nvtx_listens() && !captured()) {
      auto& runtime = *context_->runtime;
      counters_ = std::make_unique<Counters const>(
          fmt::format("{} {} {}", runtime.traits.name, runtime.ordinal(), name_), waits_issued());
    }
  }
  StreamGroup(StreamGroup const&) = delete;
  StreamGroup& operator=(StreamGroup const&) = delete;
  ~StreamGroup() {
    // The workspace may be freed only after the work that uses it is complete. Destroying the
    // streams then waits for their launches.
    finish();
  }

  /// Blocks the host until the work issued to the compute stream so far is complete, or has failed.
  void finish() noexcept {
    if (context_->home.is_left()) {
      return;
    }
    try {
      context_->tracker->finish(compute_.mark());
    } catch (...) {  // NOLINT(bugprone-empty-catch): failed work counts as complete
    }
  }

  [[nodiscard]] Stream& stream(StreamKind kind) noexcept {
    switch (kind) {
      case StreamKind::h2d:
        return h2d_ ? *h2d_ : compute_;
      case StreamKind::d2h:
        return d2h_ ? *d2h_ : compute_;
      case StreamKind::compute:
        break;
    }
    return compute_;
  }
  [[nodiscard]] Stream& compute() noexcept { return compute_; }
  [[nodiscard]] Stream& h2d() noexcept { return stream(StreamKind::h2d); }
  [[nodiscard]] Stream& d2h() noexcept { return stream(StreamKind::d2h); }
  [[nodiscard]] bool merged() const noexcept { return options_.merge_streams; }
  /// Returns whether the group is the twin of another group in a capture, which may be over
  /// already; see StreamCapture.
  [[nodiscard]] bool captured() const noexcept { return options_.capture != nullptr; }
  [[nodiscard]] StreamGroupOptions const& options() const noexcept { return options_; }
  [[nodiscard]] std::shared_ptr<GroupLibraries> const& libraries() const noexcept {
    return libraries_;
  }
  /// Returns the group's number in its pool, or -1 for a device's default group.
  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] std::shared_ptr<StreamContext> const& context() const noexcept { return context_; }

  /// Orders and launches one operation: reserves its number, waits for the operations it must
  /// follow, and calls `work(stream_ref)`, or a NativeWork with the native stream, on this thread
  /// or on a launch thread. Returns the operation's position. `name` must outlive the launch.
  /// `observed` is the result of describe() if the runtime observes operations (as Checked does).
  /// Rethrows an exception that an earlier operation threw on a launch thread. Throws
  /// std::logic_error inside the work of another operation.
  order::Position submit(char const* name,
                         StreamKind kind,
                         AccessSet& accesses,
                         WorkRef work,
                         OperationHandle observed = {}) {
    if (context_->runtime->traits.observes && observed == nullptr) [[unlikely]] {
      observed = describe(name, kind, {}, {}, {});
    }
    Declared declared(*context_->runtime, observed);
    context_->home.require_here();
    InsideWork::refuse(name);
    GuardedThread::refuse_lost(name);
    context_->rethrow_launch_failure();
    Stream& target = stream(kind);
    auto& slot = target.slot();
    // The name is qualified on the issuing thread, to which the name scopes belong. A captured
    // operation has no span, because it does not run.
    auto span_name = context_->spans.recording() && !captured()
                         ? std::make_unique<std::string>(NameScope::qualify(name))
                         : nullptr;
    NativeLibraries const libraries = &target == &compute_ ? libraries_->native() : nullptr;
    PendingLaunch pending(
        *this, *context_->runtime, name, std::move(span_name), declared.release(), kind, libraries);
    if (launcher_ == nullptr) {
      std::unique_lock guard(slot.issuing);
      order::PositionSet needed;
      auto const number = reserve(target, accesses, needed, observed);
      auto const failure =
          context_->tracker->launch(slot, number, needed, [&] { launch(pending, work); });
      guard.unlock();
      context_->rethrow(failure);
      return {slot.index, number};
    }
    // The closure is made before a number is reserved, because copying the work may throw.
    Closure closure = work.closure(std::move(pending));
    std::lock_guard const guard(slot.issuing);
    order::PositionSet needed;
    auto const number = reserve(target, accesses, needed, observed);
    push(slot, number, needed, std::move(closure));
    return {slot.index, number};
  }

  /// Describes an operation on this group to a runtime that observes operations (as Checked does).
  /// `parts` are the captured operations if the operation launches a graph.
  [[nodiscard]] OperationHandle describe(char const* name,
                                         StreamKind kind,
                                         std::vector<MemoryUse> uses,
                                         std::source_location issued_at,
                                         std::source_location scope_opened_at,
                                         OperationParts parts = nullptr) {
    if (context_->runtime->traits.observes) {
      return context_->runtime->declare(Operation{NameScope::qualify(name),
                                                  lane(kind),
                                                  issued_at,
                                                  scope_opened_at,
                                                  std::move(uses),
                                                  std::move(parts)});
    }
    return nullptr;
  }

  /// Blocks the host until all work issued to the group so far is complete. Rethrows failures of
  /// the work, and throws errors that the device has reported, such as a trapped id.
  void synchronize() {
    InsideWork::refuse_wait("StreamGroup::synchronize");
    compute_.synchronize();
    if (!merged()) {
      h2d_->synchronize();
      d2h_->synchronize();
    }
    context_->run_checks();
  }

 private:
  [[nodiscard]] std::unique_ptr<Stream> make_copy_stream(StreamKind kind) const {
    return std::make_unique<Stream>(
        context_, options_.priority, identity(kind), options_.capture, options_.partition);
  }
  [[nodiscard]] StreamIdentity identity(StreamKind kind) const { return {lane(kind), index_}; }
  [[nodiscard]] std::string lane(StreamKind kind) const {
    constexpr char const* suffixes[] = {" compute", " h2d", " d2h"};
    return name_ + (merged() ? "" : suffixes[static_cast<int>(kind)]);
  }

  friend class PendingLaunch;

  void launch(PendingLaunch& pending, WorkRef work) {
    auto& runtime = *context_->runtime;
    auto& target = stream(pending.kind_);
    LaunchTarget const place{runtime, target.native(), pending.libraries_};
    InsideWork const inside(pending.name_);
    runtime.make_current();
    // Operations on a stream are launched in the order of their numbers, so the operation to launch
    // now has the next number.
    StackRange const range(
        pending.name_,
        category_,
        nvtx_listens() ? target.slot().launched.load(std::memory_order_relaxed) + 1 : 0);
    if (counters_ != nullptr) [[unlikely]] {
      sample_counters();
    }
    Declared(runtime, std::move(pending.observed_)).run(place.stream, [&] {
      if (captured()) [[unlikely]] {
        launch_captured(pending, place, work);
      } else if (pending.span_name_ != nullptr) [[unlikely]] {
        auto const& slot = target.slot();
        order::Position const position{slot.index, slot.launched.load() + 1};
        context_->spans.record(
            std::move(*pending.span_name_), lane(pending.kind_), place.stream, position, [&] {
              observe_call(context_->tracker->host_calls, {HostCall::launch, position}, [&] {
                work(place);
              });
            });
      } else {
        work(place);
      }
    });
  }

  /// Returns how many waits the group's slots have got, also while they were those of streams that
  /// are gone.
  [[nodiscard]] std::uint64_t waits_issued() {
    auto const of = [](StreamSlot const& slot) {
      return slot.waits_issued.load(std::memory_order_relaxed);
    };
    return of(compute_.slot()) + (merged() ? 0 : of(h2d_->slot()) + of(d2h_->slot()));
  }

  /// Tells a profiler how many waits the group's streams have got, and how many operations are
  /// queued for its launch thread, beside the one that is being launched.
  void sample_counters() {
    std::uint64_t queued = 0;
    auto const add = [&](StreamSlot const& slot) {
      auto const launched = slot.launched.load(std::memory_order_relaxed);
      queued += slot.reserved.load(std::memory_order_relaxed) - launched;
    };
    add(compute_.slot());
    if (!merged()) {
      add(h2d_->slot());
      add(d2h_->slot());
    }
    counters_->waits.sample(static_cast<std::int64_t>(waits_issued() - counters_->waits_before));
    counters_->queued.sample(static_cast<std::int64_t>(queued) - 1);
  }

  /// Launches a captured operation. If its work has ended the capture, throws an error with the
  /// operation's name, whatever error the work itself throws.
  void launch_captured(PendingLaunch const& pending, LaunchTarget const& place, WorkRef work) {
    auto const require_sound = [&](std::string_view why) {
      if (!context_->runtime->is_capture_sound(place.stream)) {
        throw std::logic_error(
            fmt::format("operation '{}' may not be captured, or another thread has waited for the "
                        "whole device meanwhile: {}",
                        NameScope::qualify(pending.name_),
                        why));
      }
    };
    try {
      work(place);
    } catch (std::exception const& error) {
      require_sound(error.what());
      throw;
    }
    require_sound(
        "its work makes a call that a capture cannot have, such as a wait for the stream");
  }

  /// Reserves the operation's number. If the runtime observes operations and reports an error,
  /// throws the error and reserves nothing.
  std::uint64_t reserve(Stream& target,
                        AccessSet& accesses,
                        order::PositionSet& needed,
                        OperationHandle const& observed) {
    auto& runtime = *context_->runtime;
    auto const number =
        context_->tracker->reserve(target.slot(), accesses, needed, [&](TrackedOrder const& order) {
          return !runtime.traits.observes_order ||
                 runtime.operation_reserved(observed, target.native(), order);
        });
    if (runtime.traits.observes_order) [[unlikely]] {
      try {
        runtime.operation_issued(observed);
      } catch (...) {
        if (number != 0) {  // a number is reserved, although the runtime's report threw
          context_->tracker->abandon(target.slot(), number, needed);
        }
        throw;
      }
    }
    return number;
  }

  void push(StreamSlot& slot,
            std::uint64_t number,
            order::PositionSet const& needed,
            Closure closure) {
    try {
      launcher_->push({&slot, number, needed, std::move(closure), context_->launch_failure});
    } catch (...) {
      context_->tracker->abandon(slot, number, needed);
      throw;
    }
  }

  std::shared_ptr<StreamContext> context_;
  int index_;
  std::string name_;
  std::uint32_t category_;  ///< of the ranges of its operations
  std::shared_ptr<GroupLibraries> libraries_;
  std::shared_ptr<LaunchPool> launcher_;
  StreamGroupOptions options_;
  struct Counters {
    Counters(std::string const& group, std::uint64_t waits_so_far)
        : name(group),
          waits((name.text() + " waits").c_str(), Counter::Unit::count),
          queued((name.text() + " queued launches").c_str(), Counter::Unit::count),
          waits_before(waits_so_far) {}
    NumberedName name;  ///< groups of several pools have one name
    Counter waits;
    Counter queued;
    std::uint64_t waits_before;  ///< what waits_issued() returned when the group was made
  };
  std::unique_ptr<Counters const> counters_;  ///< null unless a profiler listens
  Stream compute_;
  std::unique_ptr<Stream> h2d_;
  std::unique_ptr<Stream> d2h_;
};

}  // namespace msstream::detail
