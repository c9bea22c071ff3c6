// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/detail/observe.hpp>
#include <msstream/runtime/interop.hpp>
#include <msstream/runtime/observing.hpp>
#include <msstream/runtime/paged.hpp>
#include <msstream/runtime/partitioning.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace msstream {

namespace detail {

/// A base class that has the type Visit of the runtime R if R is an InteropRuntime, otherwise
/// nothing.
template <Runtime R>
struct VisitOf {};
template <InteropRuntime R>
struct VisitOf<R> {
  using Visit = typename R::Visit;
};

}  // namespace detail

/// A runtime that wraps another one and passes every call on to it. Derived classes replace the
/// calls that they want to observe or change.
template <Runtime Inner>
class RuntimeDecorator : public detail::VisitOf<Inner>, public detail::GraphOf<Inner> {
 public:
  using inner_type = Inner;
  using native_stream = typename Inner::native_stream;
  using native_event = typename Inner::native_event;
  using native_libraries = typename Inner::native_libraries;
  using stream_ref = typename Inner::stream_ref;

  /// Makes the inner runtime from its options.
  explicit RuntimeDecorator(typename Inner::Options const& options) : inner_(options) {}
  RuntimeDecorator(RuntimeDecorator const&) = delete;
  RuntimeDecorator& operator=(RuntimeDecorator const&) = delete;

  /// Returns the runtime that gets the calls.
  [[nodiscard]] Inner& inner() noexcept { return inner_; }
  /// Returns the checker of the inner runtime, if it has one.
  [[nodiscard]] auto const& checker() const noexcept requires requires(Inner const& inner) {
    inner.checker();
  }
  { return inner_.checker(); }

  native_stream create_stream(StreamPriority priority, SmPartition partition = {}) {
    return msstream::create_stream(inner_, priority, partition);
  }
  [[nodiscard]] int most_sm_parts() const noexcept requires PartitioningRuntime<Inner> {
    return inner_.most_sm_parts();
  }
  void destroy_stream(native_stream stream) noexcept { inner_.destroy_stream(stream); }
  void synchronize_stream(native_stream stream) { inner_.synchronize_stream(stream); }

  native_event create_event(EventTiming timing) { return inner_.create_event(timing); }
  void destroy_event(native_event event) noexcept { inner_.destroy_event(event); }
  void record(native_event event, native_stream stream) { inner_.record(event, stream); }
  void wait(native_stream stream, native_event event) { inner_.wait(stream, event); }
  bool query(native_event event) { return inner_.query(event); }
  void synchronize(native_event event) { inner_.synchronize(event); }
  double elapsed_ns(native_event begin, native_event end) { return inner_.elapsed_ns(begin, end); }

  void* allocate_device(std::size_t bytes) { return inner_.allocate_device(bytes); }
  void free_device(void* memory, std::size_t bytes) noexcept { inner_.free_device(memory, bytes); }
  void* allocate_pinned(std::size_t bytes) { return inner_.allocate_pinned(bytes); }
  void free_pinned(void* memory, std::size_t bytes) noexcept { inner_.free_pinned(memory, bytes); }
  [[nodiscard]] MemoryInfo memory_info() { return inner_.memory_info(); }

  [[nodiscard]] std::size_t page_bytes() const requires PagedRuntime<Inner> {
    return inner_.page_bytes();
  }
  void* reserve_addresses(std::size_t bytes) requires PagedRuntime<Inner> {
    return inner_.reserve_addresses(bytes);
  }
  void release_addresses(void* addresses, std::size_t bytes) noexcept requires PagedRuntime<Inner> {
    inner_.release_addresses(addresses, bytes);
  }
  void map_pages(void* at, std::size_t bytes) requires PagedRuntime<Inner> {
    inner_.map_pages(at, bytes);
  }
  void move_pages(void* to, void* from, std::size_t bytes) requires PagedRuntime<Inner> {
    inner_.move_pages(to, from, bytes);
  }
  void leave_pages(void* from, std::size_t bytes) noexcept requires PagedRuntime<Inner> {
    inner_.leave_pages(from, bytes);
  }
  void unmap_pages(void* at, std::size_t bytes) noexcept requires PagedRuntime<Inner> {
    inner_.unmap_pages(at, bytes);
  }

  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream) {
    inner_.copy(to, from, bytes, kind, stream);
  }
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
    inner_.fill(memory, value, bytes, stream);
  }
  void call_host(native_stream stream, Closure closure) {
    inner_.call_host(stream, std::move(closure));
  }

  native_libraries create_libraries(LibraryOptions const& options) {
    return inner_.create_libraries(options);
  }
  void destroy_libraries(native_libraries libraries) noexcept {
    inner_.destroy_libraries(libraries);
  }
  [[nodiscard]] stream_ref ref(native_stream stream, native_libraries libraries) const {
    return inner_.ref(stream, libraries);
  }
  /// Makes the device of the inner runtime that of the calling thread.
  void make_current() requires requires(Inner& inner) { inner.make_current(); }
  { inner_.make_current(); }
  /// Returns the number of the runtime's device. Exists only if the wrapped runtime numbers its
  /// devices.
  [[nodiscard]] int ordinal() const noexcept requires requires(Inner const& inner) {
    inner.ordinal();
  }
  { return inner_.ordinal(); }

  [[nodiscard]] std::optional<ForeignStream> identify(native_stream stream) requires
      InteropRuntime<Inner> {
    return inner_.identify(stream);
  }
  [[nodiscard]] auto visit() requires InteropRuntime<Inner> { return inner_.visit(); }

  void begin_capture(native_stream stream) requires CapturingRuntime<Inner> {
    inner_.begin_capture(stream);
  }
  [[nodiscard]] bool is_capture_sound(native_stream stream) requires CapturingRuntime<Inner> {
    return inner_.is_capture_sound(stream);
  }
  [[nodiscard]] auto end_capture(native_stream stream) requires CapturingRuntime<Inner> {
    return inner_.end_capture(stream);
  }
  void abandon_capture(native_stream stream) noexcept requires CapturingRuntime<Inner> {
    inner_.abandon_capture(stream);
  }
  template <class Graph>
  void launch_graph(Graph graph, native_stream stream) requires CapturingRuntime<Inner> {
    inner_.launch_graph(graph, stream);
  }
  template <class Graph>
  void destroy_graph(Graph graph) noexcept requires CapturingRuntime<Inner> {
    inner_.destroy_graph(graph);
  }
  /// Returns the operations that were captured into the graph, as the inner runtime knows them.
  template <class Graph>
  [[nodiscard]] OperationParts parts_of(Graph graph) requires requires(Inner& inner) {
    inner.parts_of(graph);
  }
  { return inner_.parts_of(graph); }

  OperationHandle declare(Operation operation) {
    if constexpr (ObservingRuntime<Inner>) {
      return inner_.declare(std::move(operation));
    } else {
      return std::make_shared<Operation const>(std::move(operation));
    }
  }
  void operation_begins(OperationHandle const& operation, native_stream stream) {
    if constexpr (ObservingRuntime<Inner>) {
      inner_.operation_begins(operation, stream);
    }
  }
  void operation_given_up(OperationHandle const& operation) noexcept {
    if constexpr (ObservingRuntime<Inner>) {
      inner_.operation_given_up(operation);
    }
  }
  void operation_ends(OperationHandle const& operation,
                      native_stream stream,
                      Outcome outcome) noexcept {
    if constexpr (ObservingRuntime<Inner>) {
      inner_.operation_ends(operation, stream, outcome);
    }
  }
  void foreign_work_begins(OperationHandle const& operation, native_stream stream) {
    if constexpr (ObservingRuntime<Inner>) {
      inner_.foreign_work_begins(operation, stream);
    }
  }
  void foreign_work_ends(OperationHandle const& operation, native_stream stream) {
    if constexpr (ObservingRuntime<Inner>) {
      inner_.foreign_work_ends(operation, stream);
    }
  }
  void memory_pooled(void const* memory, std::size_t bytes) {
    detail::observe::memory_pooled(inner_, memory, bytes);
  }
  void memory_taken(void const* memory, std::size_t bytes) {
    detail::observe::memory_taken(inner_, memory, bytes);
  }
  void memory_returned(void const* memory, std::size_t bytes) noexcept {
    detail::observe::memory_returned(inner_, memory, bytes);
  }
  void host_uses(MemoryUse const& use) { detail::observe::host_uses(inner_, use); }

  [[nodiscard]] bool operation_reserved(OperationHandle const& operation,
                                        native_stream stream,
                                        TrackedOrder const& order) requires
      OrderObservingRuntime<Inner> {
    return inner_.operation_reserved(operation, stream, order);
  }
  void operation_issued(OperationHandle const& operation) requires OrderObservingRuntime<Inner> {
    inner_.operation_issued(operation);
  }
  void position_marked(native_stream stream,
                       void const* tracker,
                       order::Position position) requires OrderObservingRuntime<Inner> {
    inner_.position_marked(stream, tracker, position);
  }
  void position_launched(void const* tracker,
                         order::Position position) noexcept requires OrderObservingRuntime<Inner> {
    inner_.position_launched(tracker, position);
  }
  void stream_follows(native_stream stream,
                      void const* tracker,
                      std::span<order::Position const> positions) requires
      OrderObservingRuntime<Inner> {
    inner_.stream_follows(stream, tracker, positions);
  }
  void host_follows(void const* tracker,
                    order::Position position) requires OrderObservingRuntime<Inner> {
    inner_.host_follows(tracker, position);
  }
  void stream_named(native_stream stream,
                    std::string_view name) requires OrderObservingRuntime<Inner> {
    inner_.stream_named(stream, name);
  }

 protected:
  Inner inner_;
};

}  // namespace msstream
