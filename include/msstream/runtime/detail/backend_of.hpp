// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/observe.hpp>
#include <msstream/runtime/paged.hpp>

#include <concepts>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace msstream::detail {

template <Runtime R>
[[nodiscard]] constexpr StreamRefKind ref_kind_of() noexcept {
  using Ref = typename R::stream_ref;
  return std::same_as<Ref, HostStream>   ? StreamRefKind::host
         : std::same_as<Ref, CudaStream> ? StreamRefKind::cuda
                                         : StreamRefKind::other;
}

template <Runtime R>
[[nodiscard]] BackendTraits traits_of() noexcept {
  return {.name = R::name,
          .type = &typeid(R),
          .own_type = &typeid(R),
          .life = life_of<R>,
          .ref_kind = ref_kind_of<R>(),
          .observes = ObservingRuntime<R>,
          .observes_order = OrderObservingRuntime<R>,
          .captures = CapturingRuntime<R>,
          .must_be_asked = msstream::must_be_asked<R>,
          .runs_beside_host = msstream::runs_beside_host<R>,
          .timed_on_top_ns = msstream::timed_on_top_ns<R>};
}

/// Selects the constructor of BackendOf for a decorator that replaces the runtime which it wraps.
struct InsteadOfInner {};

[[noreturn]] void throw_runtime_has_no(std::string_view runtime, char const* what);
[[noreturn]] void throw_other_runtime(std::string_view actual, std::string_view expected);

/// Implements Backend for a runtime type, a user's own included, and owns the runtime.
template <Runtime R>
class BackendOf final : public Backend {
  using native_stream = typename R::native_stream;
  using native_event = typename R::native_event;
  using native_libraries = typename R::native_libraries;
  static_assert(std::is_pointer_v<native_stream> && std::is_pointer_v<native_event> &&
                    std::is_pointer_v<native_libraries>,
                "the native handles of a runtime must be pointers");

 public:
  explicit BackendOf(typename R::Options const& options)
      : Backend(traits_of<R>()), runtime_(options) {
    object = &runtime_;
  }
  /// Makes the backend of a decorator, such as Checked<R>, that replaces the runtime R which it
  /// wraps: programs access it as an R.
  BackendOf(typename R::Options const& options, InsteadOfInner)
      : Backend(traits_instead_of_inner()), runtime_(options) {
    if constexpr (kDecorates) {
      object = &runtime_.inner();
    }
  }

  NativeStream create_stream(StreamPriority priority, SmPartition partition) override {
    return msstream::create_stream(runtime_, priority, partition);
  }
  void destroy_stream(NativeStream stream) noexcept override {
    runtime_.destroy_stream(stream_of(stream));
  }
  void synchronize_stream(NativeStream stream) override {
    runtime_.synchronize_stream(stream_of(stream));
  }

  NativeEvent create_event(EventTiming timing) override { return runtime_.create_event(timing); }
  void destroy_event(NativeEvent event) noexcept override {
    runtime_.destroy_event(event_of(event));
  }
  void record(NativeEvent event, NativeStream stream) override {
    runtime_.record(event_of(event), stream_of(stream));
  }
  void wait(NativeStream stream, NativeEvent event) override {
    runtime_.wait(stream_of(stream), event_of(event));
  }
  bool query(NativeEvent event) override { return runtime_.query(event_of(event)); }
  void synchronize(NativeEvent event) override { runtime_.synchronize(event_of(event)); }
  double elapsed_ns(NativeEvent begin, NativeEvent end) override {
    return runtime_.elapsed_ns(event_of(begin), event_of(end));
  }

  void* allocate_device(std::size_t bytes) override { return runtime_.allocate_device(bytes); }
  void free_device(void* memory, std::size_t bytes) noexcept override {
    runtime_.free_device(memory, bytes);
  }
  void* allocate_pinned(std::size_t bytes) override { return runtime_.allocate_pinned(bytes); }
  void free_pinned(void* memory, std::size_t bytes) noexcept override {
    runtime_.free_pinned(memory, bytes);
  }
  MemoryInfo memory_info() override { return runtime_.memory_info(); }

  std::size_t page_bytes() override {
    if constexpr (PagedRuntime<R>) {
      return runtime_.page_bytes();
    } else {
      return 0;
    }
  }
  void* reserve_addresses(std::size_t bytes) override {
    if constexpr (PagedRuntime<R>) {
      return runtime_.reserve_addresses(bytes);
    } else {
      refuse("pages");
    }
  }
  void release_addresses(void* addresses, std::size_t bytes) noexcept override {
    if constexpr (PagedRuntime<R>) {
      runtime_.release_addresses(addresses, bytes);
    }
  }
  void map_pages(void* at, std::size_t bytes) override {
    if constexpr (PagedRuntime<R>) {
      runtime_.map_pages(at, bytes);
    } else {
      refuse("pages");
    }
  }
  void move_pages(void* to, void* from, std::size_t bytes) override {
    if constexpr (PagedRuntime<R>) {
      runtime_.move_pages(to, from, bytes);
    } else {
      refuse("pages");
    }
  }
  void leave_pages(void* from, std::size_t bytes) noexcept override {
    if constexpr (PagedRuntime<R>) {
      runtime_.leave_pages(from, bytes);
    }
  }
  void unmap_pages(void* at, std::size_t bytes) noexcept override {
    if constexpr (PagedRuntime<R>) {
      runtime_.unmap_pages(at, bytes);
    }
  }

  void copy(
      void* to, void const* from, std::size_t bytes, CopyKind kind, NativeStream stream) override {
    runtime_.copy(to, from, bytes, kind, stream_of(stream));
  }
  void fill(void* memory, std::uint8_t value, std::size_t bytes, NativeStream stream) override {
    runtime_.fill(memory, value, bytes, stream_of(stream));
  }
  void call_host(NativeStream stream, Closure closure) override {
    runtime_.call_host(stream_of(stream), std::move(closure));
  }

  NativeLibraries create_libraries(LibraryOptions const& options) override {
    return runtime_.create_libraries(options);
  }
  void destroy_libraries(NativeLibraries libraries) noexcept override {
    runtime_.destroy_libraries(static_cast<native_libraries>(libraries));
  }
  HostStream host_ref(NativeStream stream, NativeLibraries libraries) override {
    if constexpr (ref_kind_of<R>() == StreamRefKind::host) {
      return ref(stream, libraries);
    } else {
      refuse("CPU kernels");
    }
  }
  CudaStream cuda_ref(NativeStream stream, NativeLibraries libraries) override {
    if constexpr (ref_kind_of<R>() == StreamRefKind::cuda) {
      return ref(stream, libraries);
    } else {
      refuse("CUDA kernels");
    }
  }
  void make_current() override {
    if constexpr (requires(R & runtime) { runtime.make_current(); }) {
      runtime_.make_current();
    }
  }
  int ordinal() noexcept override {
    if constexpr (requires(R & runtime) { runtime.ordinal(); }) {
      return runtime_.ordinal();
    } else {
      return -1;
    }
  }

  Checker* checker() noexcept override {
    if constexpr (requires(R const& runtime) {
                    { *runtime.checker() } -> std::convertible_to<Checker&>;
                  }) {
      return runtime_.checker().get();
    } else {
      return nullptr;
    }
  }

  void begin_capture(NativeStream stream) override {
    if constexpr (CapturingRuntime<R>) {
      runtime_.begin_capture(stream_of(stream));
    } else {
      refuse("captures");
    }
  }
  bool is_capture_sound(NativeStream stream) override {
    if constexpr (CapturingRuntime<R>) {
      return runtime_.is_capture_sound(stream_of(stream));
    } else {
      refuse("captures");
    }
  }
  NativeGraph end_capture(NativeStream stream) override {
    if constexpr (CapturingRuntime<R>) {
      return runtime_.end_capture(stream_of(stream));
    } else {
      refuse("captures");
    }
  }
  void abandon_capture(NativeStream stream) noexcept override {
    if constexpr (CapturingRuntime<R>) {
      runtime_.abandon_capture(stream_of(stream));
    }
  }
  void launch_graph(NativeGraph graph, NativeStream stream) override {
    if constexpr (CapturingRuntime<R>) {
      runtime_.launch_graph(static_cast<typename R::native_graph>(graph), stream_of(stream));
    } else {
      refuse("captures");
    }
  }
  void destroy_graph(NativeGraph graph) noexcept override {
    if constexpr (CapturingRuntime<R>) {
      runtime_.destroy_graph(static_cast<typename R::native_graph>(graph));
    }
  }
  OperationParts parts_of(NativeGraph graph) override {
    if constexpr (CapturingRuntime<R>) {
      return observe::parts_of(runtime_, static_cast<typename R::native_graph>(graph));
    } else {
      return nullptr;
    }
  }

  std::optional<ForeignStream> identify(NativeStream stream) override {
    if constexpr (InteropRuntime<R>) {
      return runtime_.identify(stream_of(stream));
    } else {
      refuse("streams of other code");
    }
  }

  OperationHandle declare(Operation operation) override {
    if constexpr (ObservingRuntime<R>) {
      return runtime_.declare(std::move(operation));
    } else {
      return nullptr;
    }
  }
  void operation_begins(OperationHandle const& operation, NativeStream stream) override {
    if constexpr (ObservingRuntime<R>) {
      runtime_.operation_begins(operation, stream_of(stream));
    }
  }
  void operation_given_up(OperationHandle const& operation) noexcept override {
    if constexpr (ObservingRuntime<R>) {
      runtime_.operation_given_up(operation);
    }
  }
  void operation_ends(OperationHandle const& operation,
                      NativeStream stream,
                      Outcome outcome) noexcept override {
    if constexpr (ObservingRuntime<R>) {
      runtime_.operation_ends(operation, stream_of(stream), outcome);
    }
  }
  void foreign_work_begins(OperationHandle const& operation, NativeStream stream) override {
    if constexpr (ObservingRuntime<R>) {
      runtime_.foreign_work_begins(operation, stream_of(stream));
    }
  }
  void foreign_work_ends(OperationHandle const& operation, NativeStream stream) override {
    if constexpr (ObservingRuntime<R>) {
      runtime_.foreign_work_ends(operation, stream_of(stream));
    }
  }
  void memory_pooled(void const* memory, std::size_t bytes) override {
    observe::memory_pooled(runtime_, memory, bytes);
  }
  void memory_taken(void const* memory, std::size_t bytes) override {
    observe::memory_taken(runtime_, memory, bytes);
  }
  void memory_returned(void const* memory, std::size_t bytes) noexcept override {
    observe::memory_returned(runtime_, memory, bytes);
  }
  void host_uses(MemoryUse const& use) override { observe::host_uses(runtime_, use); }

  bool operation_reserved(OperationHandle const& operation,
                          NativeStream stream,
                          TrackedOrder const& order) override {
    if constexpr (OrderObservingRuntime<R>) {
      return runtime_.operation_reserved(operation, stream_of(stream), order);
    } else {
      return true;
    }
  }
  void operation_issued(OperationHandle const& operation) override {
    if constexpr (OrderObservingRuntime<R>) {
      runtime_.operation_issued(operation);
    }
  }
  void position_marked(NativeStream stream,
                       void const* tracker,
                       order::Position position) override {
    if constexpr (OrderObservingRuntime<R>) {
      runtime_.position_marked(stream_of(stream), tracker, position);
    }
  }
  void position_launched(void const* tracker, order::Position position) noexcept override {
    if constexpr (OrderObservingRuntime<R>) {
      runtime_.position_launched(tracker, position);
    }
  }
  void stream_follows(NativeStream stream,
                      void const* tracker,
                      std::span<order::Position const> positions) override {
    if constexpr (OrderObservingRuntime<R>) {
      runtime_.stream_follows(stream_of(stream), tracker, positions);
    }
  }
  void host_follows(void const* tracker, order::Position position) override {
    if constexpr (OrderObservingRuntime<R>) {
      runtime_.host_follows(tracker, position);
    }
  }
  void stream_named(NativeStream stream, std::string_view name) override {
    if constexpr (OrderObservingRuntime<R>) {
      runtime_.stream_named(stream_of(stream), name);
    }
  }

 protected:
  void begin_visit(std::byte* place) override {
    if constexpr (InteropRuntime<R>) {
      using Guard = typename R::Visit;
      static_assert(sizeof(Guard) <= Visit::kBytes && alignof(Guard) <= alignof(std::max_align_t));
      new (place) Guard(runtime_.visit());
    }
  }
  void end_visit(std::byte* place) noexcept override {
    if constexpr (InteropRuntime<R>) {
      using Guard = typename R::Visit;
      std::launder(reinterpret_cast<Guard*>(place))->~Guard();
    }
  }

 private:
  static constexpr bool kDecorates = requires { typename R::inner_type; };

  static BackendTraits traits_instead_of_inner() noexcept {
    auto traits = traits_of<R>();
    if constexpr (kDecorates) {
      traits.type = &typeid(typename R::inner_type);
    }
    return traits;
  }
  [[nodiscard]] typename R::stream_ref ref(NativeStream stream, NativeLibraries libraries) {
    return runtime_.ref(stream_of(stream), static_cast<native_libraries>(libraries));
  }
  static native_stream stream_of(NativeStream stream) noexcept {
    return static_cast<native_stream>(stream);
  }
  static native_event event_of(NativeEvent event) noexcept {
    return static_cast<native_event>(event);
  }
  [[noreturn]] static void refuse(char const* what) { throw_runtime_has_no(R::name, what); }

  R runtime_;
};

/// Makes a runtime, and the backend that owns it.
template <Runtime R>
[[nodiscard]] std::shared_ptr<Backend> make_backend(typename R::Options const& options) {
  return make_at_home<BackendOf<R>>(HomeProcess(life_of<R>), options);
}

/// Returns the runtime of a backend. Throws std::invalid_argument if the backend is of another
/// runtime type.
template <Runtime R>
[[nodiscard]] R& runtime_of(Backend& backend) {
  if (*backend.traits.type != typeid(R)) [[unlikely]] {
    throw_other_runtime(backend.traits.name, R::name);
  }
  return *static_cast<R*>(backend.object);
}

/// Returns the stream_ref with which the work of an operation on the stream is called. The
/// backend's runtime must be of type R.
template <Runtime R>
[[nodiscard]] typename R::stream_ref ref_of(Backend& backend,
                                            NativeStream stream,
                                            NativeLibraries libraries) {
  return static_cast<R*>(backend.object)
      ->ref(static_cast<typename R::native_stream>(stream),
            static_cast<typename R::native_libraries>(libraries));
}

}  // namespace msstream::detail
