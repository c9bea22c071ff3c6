// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/base/mechanism.hpp>
#include <msstream/base/text.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/stream/stream_group.hpp>
#include <msstream/stream/twin_libraries.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream {

/// Work of any number of groups that becomes one graph. It goes to a twin of each group, with
/// streams of its own, and libraries that are its own or, of a group that lends them, the group's.
///
///     origin:  begin, fork ──────────────────────────────┬── join, end
///     twins:         └── wait for the fork … their work ─┘
///
/// States: open; over, after end(). Going while it is open throws all of it away. Not synchronised.
template <CapturingRuntime R = DefaultRuntime>
class StreamCapture {
 public:
  using Twins = std::vector<std::shared_ptr<StreamGroup<R>>>;

  /// `libraries`: of the twins; they are kept as long as these.
  StreamCapture(std::shared_ptr<StreamContext<R>> context, TwinLibraries<R>& libraries)
      : context_(std::move(context)),
        libraries_(libraries),
        origin_(*context_->runtime),
        fork_(*context_->events),
        state_(std::make_unique<CaptureState>()) {
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

  /// Where work for the group goes while it is captured. Made when first asked for; a twin is its
  /// own.
  [[nodiscard]] StreamGroup<R>& twin_of(StreamGroup<R>& group) {
    if (group.captured()) {
      return group;
    }
    auto const found = std::find_if(
        pairs_.begin(), pairs_.end(), [&](Pair const& pair) { return pair.group.get() == &group; });
    return found != pairs_.end() ? *found->twin : make_twin(group);
  }

  /// The group whose twin has the stream; null: it is no twin's.
  [[nodiscard]] StreamGroup<R>* group_of(order::StreamIndex stream) const {
    for (auto const& pair : pairs_) {
      bool found = false;
      for_each_stream_of(
          *pair.twin, [&](Stream<R>& of_twin) { found = found || of_twin.slot().index == stream; });
      if (found) {
        return pair.group.get();
      }
    }
    return nullptr;
  }

  /// Calls `work`. What the runtime throws because the capture was ended from outside becomes a
  /// std::runtime_error that says so; whatever else is thrown stays what it is.
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

  /// Makes the graph; throws std::runtime_error where an operation's order was lost on the way, and
  /// then, as when the runtime throws, there is none. Either way the capture is over.
  [[nodiscard]] typename R::native_graph end() {
    if (state_->spoilt.load()) {
      throw std::runtime_error("a capture in which an operation could not be ordered was given up");
    }
    auto& runtime = *context_->runtime;
    for_each_stream([&](Stream<R>& stream) {
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
      if (is_of_captures(error) && has_ended) {
        throw_ended(error);
      }
      throw;
    } catch (...) {
      leave();
      throw;
    }
  }
  /// Of a capture that is over: what its graph uses, and must outlive.
  [[nodiscard]] Twins twins() const {
    Twins twins;
    for (auto const& pair : pairs_) {
      twins.push_back(pair.twin);
    }
    return twins;
  }

 private:
  struct Pair {
    std::shared_ptr<StreamGroup<R>> group;  ///< kept, so that no other one has its address
    std::shared_ptr<StreamGroup<R>> twin;
  };
  struct OwnStream {
    explicit OwnStream(R& of) : runtime(of), native(of.create_stream(StreamPriority::normal)) {}
    OwnStream(OwnStream const&) = delete;
    OwnStream& operator=(OwnStream const&) = delete;
    ~OwnStream() { runtime.destroy_stream(native); }
    R& runtime;
    typename R::native_stream native;
  };
  struct PooledEvent {
    explicit PooledEvent(EventPool<R>& from) : pool(from), native(from.acquire()) {}
    PooledEvent(PooledEvent const&) = delete;
    PooledEvent& operator=(PooledEvent const&) = delete;
    ~PooledEvent() { pool.release(native); }
    EventPool<R>& pool;
    typename R::native_event native;
  };

  /// By CUDA's codes, which the host runtime has too: other errors may themselves have spoilt the
  /// capture.
  [[nodiscard]] static bool is_of_captures(RuntimeError const& error) noexcept {
    return error.code() >= 900 && error.code() <= 908;
  }
  /// False also where the runtime does not say, because it is lost.
  [[nodiscard]] bool is_ended() noexcept {
    try {
      return !context_->runtime->is_capture_sound(origin_.native);
    } catch (std::exception const&) {
      return false;
    }
  }
  [[noreturn]] static void throw_ended(RuntimeError const& why) {
    throw std::runtime_error(
        text("the capture was ended from outside: another thread has waited for the whole device, "
             "as cudaDeviceSynchronize and cublasDestroy do, or work that is captured has made a "
             "call that a capture cannot have; the step can be captured again (",
             why.what(),
             ")"));
  }

  StreamGroup<R>& make_twin(StreamGroup<R>& group) {
    auto options = group.options();
    options.capture = state_.get();
    pairs_.reserve(pairs_.size() + 1);
    auto const twin = std::make_shared<StreamGroup<R>>(
        context_, group.index(), options, nullptr, libraries_.take_for(group));
    for_each_stream_of(*twin, [&](Stream<R>& stream) {
      if_not_ended([&] { context_->runtime->wait(stream.native(), fork_.native); });
    });
    pairs_.push_back({group.shared_from_this(), twin});
    return *twin;
  }
  template <class Visit>
  static void for_each_stream_of(StreamGroup<R>& group, Visit&& visit) {
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
  /// A stream takes half a MiB of an H200: the next capture gets those of this one.
  void leave() noexcept {
    for_each_stream([](Stream<R>& stream) { stream.close(); });
  }

  std::shared_ptr<StreamContext<R>> context_;
  TwinLibraries<R>& libraries_;
  OwnStream origin_;
  PooledEvent fork_;
  std::unique_ptr<CaptureState> state_;
  std::vector<Pair> pairs_;
  bool over_ = false;
};

MSSTREAM_COMPILED_ONCE(class StreamCapture<DefaultRuntime>);

}  // namespace msstream
