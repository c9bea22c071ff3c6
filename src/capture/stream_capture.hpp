// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "stream/stream_group.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/capturing.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Captures work of any number of stream groups into one graph. Each group is replaced by a twin, a
/// group with its own captured streams, and also with its own library handles unless the group
/// lends its handles to the twin. The twins' streams start after an event on the origin stream, and
/// join it at the end:
///
///     origin:  begin, fork ──────────────────────────────┬── join, end
///     twins:         └── wait for the fork … their work ─┘
///
/// States: open; over, after end(). If the object is destroyed while open, the capture is
/// discarded. Not synchronised.
class StreamCapture {
 public:
  using Twins = std::vector<std::shared_ptr<StreamGroup>>;

  /// The library handles of the twins in several captures whose graphs never run concurrently. Each
  /// capture reuses the handles of the capture before. Not synchronised.
  class Libraries {
   public:
    /// `lender` is a group whose own library handles its twins use. The graphs must then run one
    /// after the other with the group's work. Null: no group lends its handles.
    explicit Libraries(std::shared_ptr<StreamGroup> lender = nullptr)
        : lender_(std::move(lender)) {}

    [[nodiscard]] StreamGroup* lender() const noexcept { return lender_.get(); }

    /// Makes all library handles available again, for the capture that begins.
    void begin() noexcept { taken_ = 0; }
    /// Returns library handles for the twin of `group` that no other twin of the capture uses.
    [[nodiscard]] std::shared_ptr<GroupLibraries> take_for(StreamGroup const& group) {
      if (&group == lender_.get()) {
        return lender_->libraries();
      }
      if (taken_ == made_.size()) {
        auto const& context = *group.context();
        made_.push_back(std::make_shared<GroupLibraries>(context.runtime, context.libraries));
      }
      return made_[taken_++];
    }

   private:
    std::shared_ptr<StreamGroup> lender_;
    std::vector<std::shared_ptr<GroupLibraries>> made_;
    std::size_t taken_ = 0;  ///< the number of leading elements of `made_` in use
  };

  /// Begins the capture. `libraries` provides the twins' library handles, and must outlive their
  /// use.
  StreamCapture(std::shared_ptr<StreamContext> context, Libraries& libraries)
      : context_(std::move(context)),
        libraries_(libraries),
        origin_(*context_->runtime),
        fork_(*context_->events),
        state_(std::make_unique<StreamSlot::Capture>()) {
    libraries_.begin();
    context_->runtime->begin_capture(origin_.native);
    try {
      if_not_ended([&] { context_->runtime->record(fork_.native, origin_.native); });
    } catch (...) {
      context_->runtime->abandon_capture(origin_.native);
      throw;
    }
  }
  StreamCapture(StreamCapture const&) = delete;
  StreamCapture& operator=(StreamCapture const&) = delete;
  ~StreamCapture() {
    if (!over_) {
      context_->runtime->abandon_capture(origin_.native);
      leave();
    }
  }

  /// Returns the twin of `group`, to which captured work for the group goes. Makes the twin at the
  /// first call. If `group` is a twin itself, returns `group`.
  [[nodiscard]] StreamGroup& twin_of(StreamGroup& group) {
    if (group.captured()) {
      return group;
    }
    auto const found = std::find_if(
        pairs_.begin(), pairs_.end(), [&](Pair const& pair) { return pair.group.get() == &group; });
    return found != pairs_.end() ? *found->twin : make_twin(group);
  }

  /// Returns the group whose twin has the stream, or null if no twin has it.
  [[nodiscard]] StreamGroup* group_of(order::StreamIndex stream) const {
    for (auto const& pair : pairs_) {
      bool found = false;
      for_each_stream_of(*pair.twin,
                         [&](Stream& of_twin) { found = found || of_twin.slot().index == stream; });
      if (found) {
        return pair.group.get();
      }
    }
    return nullptr;
  }

  /// Calls `work`. If the runtime throws because the capture was ended from outside, throws a
  /// std::runtime_error that says so. Passes on all other exceptions.
  template <class Work>
  void if_not_ended(Work&& work) {
    try {
      std::forward<Work>(work)();
    } catch (RuntimeError const& error) {
      if (is_of_captures(error) && is_ended()) {
        throw_ended(error);
      }
      throw;
    }
  }

  /// Ends the capture and returns its graph. Throws std::runtime_error if an operation could not be
  /// ordered after others, and passes on exceptions of the runtime. After an exception there is no
  /// graph, and the object can only be destroyed.
  [[nodiscard]] NativeGraph end() {
    if (state_->spoilt.load()) {
      throw std::runtime_error("a capture in which an operation could not be ordered was given up");
    }
    auto& runtime = *context_->runtime;
    for_each_stream([&](Stream& stream) {
      PooledEvent const tail(*context_->events);
      if_not_ended([&] {
        runtime.record(tail.native, stream.native());
        if (works(Mechanism::capture_join)) {
          runtime.wait(origin_.native, tail.native);
        }
      });
    });
    bool const has_ended = is_ended();
    over_ = true;
    try {
      auto const graph = runtime.end_capture(origin_.native);
      leave();
      return graph;
    } catch (RuntimeError const& error) {
      leave();
      // The capture may also have been ended after has_ended was read.
      if (error.code() == detail::kCaptureInvalidated || (is_of_captures(error) && has_ended)) {
        throw_ended(error);
      }
      throw;
    } catch (...) {
      leave();
      throw;
    }
  }
  /// Returns the twins made so far. The graph uses their resources, so it must not outlive them.
  [[nodiscard]] Twins twins() const {
    Twins twins;
    for (auto const& pair : pairs_) {
      twins.push_back(pair.twin);
    }
    return twins;
  }

 private:
  struct Pair {
    std::shared_ptr<StreamGroup> group;  ///< kept alive, so that no other group can get the same
                                         ///< address
    std::shared_ptr<StreamGroup> twin;
  };
  struct OwnStream {
    explicit OwnStream(Backend& of)
        : runtime(of), native(of.create_stream(StreamPriority::normal, {})) {}
    OwnStream(OwnStream const&) = delete;
    OwnStream& operator=(OwnStream const&) = delete;
    ~OwnStream() { runtime.destroy_stream(native); }
    Backend& runtime;
    NativeStream native;
  };
  struct PooledEvent {
    explicit PooledEvent(EventPool& from) : pool(from), native(from.acquire()) {}
    PooledEvent(PooledEvent const&) = delete;
    PooledEvent& operator=(PooledEvent const&) = delete;
    ~PooledEvent() { pool.release(native); }
    EventPool& pool;
    NativeEvent native;
  };

  /// Returns whether the error code is one of those about captures. After any other error, the
  /// failed call may itself have invalidated the capture.
  [[nodiscard]] static bool is_of_captures(RuntimeError const& error) noexcept {
    return error.code() >= detail::kCaptureUnsupported &&
           error.code() <= detail::kCaptureWrongThread;
  }
  /// Returns whether the capture has been ended from outside. Returns false if the runtime cannot
  /// tell because its context is lost.
  [[nodiscard]] bool is_ended() noexcept {
    try {
      return !context_->runtime->is_capture_sound(origin_.native);
    } catch (std::exception const&) {
      return false;
    }
  }
  [[noreturn]] static void throw_ended(RuntimeError const& why) {
    throw std::runtime_error(fmt::format(
        "the capture was ended from outside: another thread has waited for the whole device, as "
        "cudaDeviceSynchronize and cublasDestroy do, or work that is captured has made a call that "
        "a capture cannot have; the step can be captured again ({})",
        why.what()));
  }

  StreamGroup& make_twin(StreamGroup& group) {
    auto options = group.options();
    options.capture = state_.get();
    pairs_.reserve(pairs_.size() + 1);
    auto const twin = std::make_shared<StreamGroup>(
        context_, group.index(), options, nullptr, libraries_.take_for(group));
    for_each_stream_of(*twin, [&](Stream& stream) {
      if_not_ended([&] { context_->runtime->wait(stream.native(), fork_.native); });
    });
    pairs_.push_back({group.shared_from_this(), twin});
    return *twin;
  }
  template <class Visit>
  static void for_each_stream_of(StreamGroup& group, Visit&& visit) {
    visit(group.compute());
    if (!group.merged()) {
      visit(group.h2d());
      visit(group.d2h());
    }
  }
  template <class Visit>
  void for_each_stream(Visit&& visit) {
    for (auto const& pair : pairs_) {
      for_each_stream_of(*pair.twin, visit);
    }
  }
  /// Closes the twins' streams, so that the next capture can reuse their memory: a stream takes
  /// half a MiB on an H200.
  void leave() noexcept {
    for_each_stream([](Stream& stream) { stream.close(); });
  }

  std::shared_ptr<StreamContext> context_;
  Libraries& libraries_;
  OwnStream origin_;
  PooledEvent fork_;
  std::unique_ptr<StreamSlot::Capture> state_;
  std::vector<Pair> pairs_;
  bool over_ = false;
};

}  // namespace msstream::detail
