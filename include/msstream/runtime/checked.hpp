// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/decorator.hpp>
#include <msstream/runtime/detail/sync_watch.hpp>
#include <msstream/runtime/detail/sync_watch_cuda.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace msstream {

/// Wraps a runtime R, and checks the order of the work that is given to it:
///
///     Device<Checked<Cuda>> device;
///
/// A program runs as on R; memory accesses that are not ordered are reported even if they cause no
/// error in that run (see Checker and CheckKind). `device.runtime().checker()` has the findings.
template <Runtime R>
class Checked : public RuntimeDecorator<R> {
  using Base = RuntimeDecorator<R>;
  using Base::inner_;

 public:
  struct Options {
    typename R::Options runtime = {};  ///< of the runtime that is checked
    CheckerOptions check = {};         ///< of its checker
    /// The checker to use; null makes a new one. Two devices that share a dependency tracker must
    /// share a checker, too.
    std::shared_ptr<Checker> checker = nullptr;
  };
  using typename Base::native_event;
  using typename Base::native_stream;

  static constexpr std::string_view name = R::name;

  /// Makes the runtime, and a checker that follows all its calls.
  explicit Checked(Options options = {})
      : Base(options.runtime),
        checker_(options.checker != nullptr ? options.checker
                                            : std::make_shared<Checker>(options.check)) {
    detail::SyncWatch<R>::start();
  }

  /// Returns the checker, which has the findings.
  [[nodiscard]] std::shared_ptr<Checker> const& checker() const noexcept { return checker_; }

  native_stream create_stream(StreamPriority priority, SmPartition partition = {}) {
    auto const stream = msstream::create_stream(inner_, priority, partition);
    checker_->stream_created(handle_of(stream));
    return stream;
  }
  void destroy_stream(native_stream stream) noexcept {
    checker_->stream_destroyed(handle_of(stream));
    inner_.destroy_stream(stream);
  }
  void synchronize_stream(native_stream stream) {
    auto const tail = checker_->tail_of(handle_of(stream));
    see(tail, [&] {
      inner_.synchronize_stream(stream);
      return true;
    });
  }

  native_event create_event(EventTiming timing) {
    auto const event = inner_.create_event(timing);
    checker_->event_created(handle_of(event));
    return event;
  }
  void destroy_event(native_event event) noexcept {
    checker_->event_destroyed(handle_of(event));
    inner_.destroy_event(event);
  }
  void record(native_event event, native_stream stream) {
    if (!checker_->moment_of(handle_of(event), "record")) {
      return;
    }
    // The clock of the stream is read before the record: the event may or may not cover work that
    // another thread issues between the two calls, so such work must not count.
    auto tail = checker_->tail_of(handle_of(stream));
    inner_.record(event, stream);
    checker_->recorded(handle_of(event), std::move(tail));
  }
  void wait(native_stream stream, native_event event) {
    // The clock of the event is read before the wait: the wait may or may not cover a record that
    // another thread makes between the two calls, so such a record must not count.
    if (auto const moment = checker_->waitable_moment_of(handle_of(event), handle_of(stream))) {
      inner_.wait(stream, event);
      checker_->waited(handle_of(stream), *moment, account());
    }
  }
  bool query(native_event event) {
    auto const moment = checker_->moment_of(handle_of(event), "query");
    bool complete = true;
    if (!moment) {
      return complete;
    }
    see(*moment, [&] {
      complete = inner_.query(event);
      return complete;
    });
    return complete;
  }
  void synchronize(native_event event) {
    if (auto const moment = checker_->moment_of(handle_of(event), "synchronisation")) {
      see(*moment, [&] {
        inner_.synchronize(event);
        return true;
      });
    }
  }
  double elapsed_ns(native_event begin, native_event end) {
    constexpr std::string_view call = "measurement";
    auto const first = checker_->moment_of(handle_of(begin), call);
    if (!first) {
      return 0;
    }
    auto const second = checker_->moment_of(handle_of(end), call);
    if (!second) {
      return 0;
    }
    double const elapsed = inner_.elapsed_ns(begin, end);
    checker_->host_saw(*first, account());
    checker_->host_saw(*second, account());
    return elapsed;
  }

  void* allocate_device(std::size_t bytes) {
    detail::OwnCall const own;
    void* const memory = inner_.allocate_device(bytes);
    checker_->allocated(memory, bytes, Checker::Space::device);
    return memory;
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    detail::OwnCall const own;
    checker_->freed(memory, bytes);
    inner_.free_device(memory, bytes);
  }
  void* allocate_pinned(std::size_t bytes) {
    detail::OwnCall const own;
    void* const memory = inner_.allocate_pinned(bytes);
    checker_->allocated(memory, bytes, Checker::Space::pinned);
    return memory;
  }
  void free_pinned(void* memory, std::size_t bytes) noexcept {
    detail::OwnCall const own;
    checker_->freed(memory, bytes);
    inner_.free_pinned(memory, bytes);
  }
  void map_pages(void* at, std::size_t bytes) requires PagedRuntime<R> {
    detail::OwnCall const own;
    inner_.map_pages(at, bytes);
    checker_->allocated(at, bytes, Checker::Space::device);
  }
  void move_pages(void* to, void* from, std::size_t bytes) requires PagedRuntime<R> {
    detail::OwnCall const own;
    inner_.move_pages(to, from, bytes);
    checker_->moved(to, from, bytes);
  }
  void leave_pages(void* from, std::size_t bytes) noexcept requires PagedRuntime<R> {
    detail::OwnCall const own;
    checker_->freed(from, bytes);
    inner_.leave_pages(from, bytes);
  }
  void unmap_pages(void* at, std::size_t bytes) noexcept requires PagedRuntime<R> {
    detail::OwnCall const own;
    checker_->freed(at, bytes);
    inner_.unmap_pages(at, bytes);
  }
  typename Base::native_libraries create_libraries(LibraryOptions const& options) {
    detail::OwnCall const own;
    return inner_.create_libraries(options);
  }
  void destroy_libraries(typename Base::native_libraries libraries) noexcept {
    detail::OwnCall const own;
    inner_.destroy_libraries(libraries);
  }

  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream) {
    constexpr std::string_view names[] = {"copy h2d", "copy d2h", "copy d2d"};
    auto const copy_name = names[static_cast<int>(kind)];
    void const* const on_host = kind == CopyKind::h2d ? from : to;
    if (bytes != 0 && kind != CopyKind::d2d && !is_pinned(on_host, bytes)) {
      checker_->pageable_copy(copy_name, on_host, handle_of(stream));
    }
    if (bytes != 0 && to != from) {
      checker_->copies(copy_name, to, from, bytes, handle_of(stream));
    }
    transfer(
        copy_name, {{from, bytes, AccessMode::read}, {to, bytes, AccessMode::write}}, stream, [&] {
          inner_.copy(to, from, bytes, kind, stream);
        });
  }
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
    transfer("fill", {{memory, bytes, AccessMode::write}}, stream, [&] {
      inner_.fill(memory, value, bytes, stream);
    });
  }

  void begin_capture(native_stream stream) requires CapturingRuntime<R> {
    inner_.begin_capture(stream);
    checker_->capture_began(handle_of(stream));
  }
  [[nodiscard]] auto end_capture(native_stream stream) requires CapturingRuntime<R> {
    try {
      auto const graph = inner_.end_capture(stream);
      checker_->graph_made(handle_of(stream), handle_of(graph));
      return graph;
    } catch (...) {
      checker_->capture_ended(handle_of(stream));
      throw;
    }
  }
  void abandon_capture(native_stream stream) noexcept requires CapturingRuntime<R> {
    checker_->capture_ended(handle_of(stream));
    inner_.abandon_capture(stream);
  }
  template <class Graph>
  void launch_graph(Graph graph, native_stream stream) requires CapturingRuntime<R> {
    auto const past_issue = checker_->begin_launch(handle_of(graph), handle_of(stream));
    run_past_issue(past_issue, stream, [&] { inner_.launch_graph(graph, stream); });
  }
  template <class Graph>
  void destroy_graph(Graph graph) noexcept requires CapturingRuntime<R> {
    checker_->graph_destroyed(handle_of(graph));
    inner_.destroy_graph(graph);
  }
  /// Returns the operations that were captured into the graph, or null if the checker did not see
  /// it.
  template <class Graph>
  [[nodiscard]] OperationParts parts_of(Graph graph) const requires CapturingRuntime<R> {
    return checker_->parts_of(handle_of(graph));
  }

  OperationHandle declare(Operation operation) {
    checker_->declare(operation);
    return Base::declare(std::move(operation));
  }
  void operation_begins(OperationHandle const& operation, native_stream stream) {
    Base::operation_begins(operation, stream);
    try {
      checker_->begin(operation, handle_of(stream));
    } catch (...) {
      Base::operation_ends(operation, stream, Outcome::failed);
      throw;
    }
    detail::ConcurrentRegion::enter(*checker_, operation->issued_at);
  }
  void operation_ends(OperationHandle const& operation,
                      native_stream stream,
                      Outcome outcome) noexcept {
    detail::ConcurrentRegion::leave();
    Base::operation_ends(operation, stream, outcome);
    checker_->end(handle_of(stream), outcome);
  }
  void operation_given_up(OperationHandle const& operation) noexcept {
    checker_->give_up(*operation);
    Base::operation_given_up(operation);
  }
  void foreign_work_begins(OperationHandle const& operation, native_stream stream) {
    Base::foreign_work_begins(operation, stream);
    checker_->begin_foreign_work(operation, handle_of(stream));
  }
  void foreign_work_ends(OperationHandle const& operation, native_stream stream) {
    Base::foreign_work_ends(operation, stream);
    checker_->end_foreign_work(operation, handle_of(stream));
  }
  void memory_pooled(void const* memory, std::size_t bytes) {
    checker_->pooled(memory, bytes);
    Base::memory_pooled(memory, bytes);
  }
  void memory_taken(void const* memory, std::size_t bytes) {
    Base::memory_taken(memory, bytes);
    checker_->taken(memory, bytes);
  }
  void memory_returned(void const* memory, std::size_t bytes) noexcept {
    checker_->returned(memory, bytes);
    Base::memory_returned(memory, bytes);
  }
  void host_uses(MemoryUse const& use) {
    Base::host_uses(use);
    checker_->host_uses(use);
  }

  [[nodiscard]] bool operation_reserved(OperationHandle const& operation,
                                        native_stream stream,
                                        TrackedOrder const& order) {
    return checker_->reserve(operation, handle_of(stream), order);
  }
  void operation_issued(OperationHandle const& operation) { checker_->tell(*operation); }
  void position_marked(native_stream stream, void const* tracker, order::Position position) {
    checker_->mark(handle_of(stream), tracker, position);
  }
  void position_launched(void const* tracker, order::Position position) noexcept {
    checker_->launched(tracker, position);
  }
  void stream_follows(native_stream stream,
                      void const* tracker,
                      std::span<order::Position const> positions) {
    checker_->follow(handle_of(stream), tracker, positions);
  }
  void host_follows(void const* tracker, order::Position position) {
    checker_->host_follows(tracker, position);
  }
  void stream_named(native_stream stream, std::string_view stream_name) {
    checker_->stream_named(handle_of(stream), stream_name);
  }

 private:
  template <class Call>
  void transfer(std::string_view call_name,
                std::vector<MemoryUse> const& uses,
                native_stream stream,
                Call&& call) {
    auto const past_issue = checker_->begin_transfer(call_name, uses, handle_of(stream));
    run_past_issue(past_issue, stream, std::forward<Call>(call));
  }
  template <class Call>
  void run_past_issue(OperationHandle const& operation, native_stream stream, Call&& call) {
    auto outcome = Outcome::failed;
    struct Ending {
      Checker& checker;
      OperationHandle const& operation;
      std::uintptr_t stream;
      Outcome const& outcome;
      ~Ending() { checker.end_transfer(operation, stream, outcome); }
    };
    Ending const ending{*checker_, operation, handle_of(stream), outcome};
    detail::OwnCall const own;
    std::forward<Call>(call)();
    outcome = Outcome::launched;
  }
  [[nodiscard]] static Checker::Account account() noexcept {
    return detail::observe::OfTracker::open() ? Checker::Account::tracker
                                              : Checker::Account::program;
  }
  /// Tells the checker that the host has seen the work up to `moment` complete, if `is_over()`
  /// returns true or throws: work that a call reports as failed is complete, too.
  template <class Call>
  void see(Checker::Moment const& moment, Call&& is_over) {
    try {
      if (!is_over()) {
        return;
      }
    } catch (...) {
      checker_->host_saw(moment, account());
      throw;
    }
    checker_->host_saw(moment, account());
  }
  [[nodiscard]] bool is_pinned(void const* memory, std::size_t bytes) {
    if (checker_->is_pinned(memory, bytes)) {
      return true;
    }
    if constexpr (requires(R const& inner) { inner.is_pinned(memory); }) {
      return inner_.is_pinned(memory);
    }
    return false;
  }

  std::shared_ptr<Checker> checker_;
};

template <Runtime R>
inline constexpr bool must_be_asked<Checked<R>> = true;

}  // namespace msstream
