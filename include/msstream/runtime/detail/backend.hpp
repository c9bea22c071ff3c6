// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/interop.hpp>
#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/partitioning.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <typeinfo>

namespace msstream {

class Checker;

}  // namespace msstream

namespace msstream::detail {

/// Untyped handles of the streams, events, graphs and libraries of a runtime of any type. The
/// native handles of all runtimes are pointers.
using NativeStream = void*;
using NativeEvent = void*;
using NativeGraph = void*;
using NativeLibraries = void*;

/// The type of stream that a runtime passes to the work of operations. `other`: a type of the
/// user's, for which the library's own operations have no kernels.
enum class StreamRefKind : std::uint8_t { host, cuda, other };

/// The properties of a runtime that never change.
struct BackendTraits {
  std::string_view name;
  std::type_info const* type;  ///< of the runtime, as programs know it
  /// The actual type of the runtime. Differs from `type` if MSSTREAM_CHECK has replaced a plain
  /// runtime by a checking one.
  std::type_info const* own_type;
  RuntimeLife life;
  StreamRefKind ref_kind;
  bool observes;           ///< satisfies ObservingRuntime
  bool observes_order;     ///< satisfies OrderObservingRuntime
  bool captures;           ///< satisfies CapturingRuntime
  bool must_be_asked;      ///< see msstream::must_be_asked
  bool runs_beside_host;   ///< see msstream::runs_beside_host
  double timed_on_top_ns;  ///< see msstream::timed_on_top_ns
};

/// An abstract interface to a runtime of any type: the functions of the concept Runtime and of its
/// extensions, with untyped pointers as handles. BackendOf<R> implements it for a runtime type R.
///
/// The contracts are those of the concepts Runtime, PartitioningRuntime, PagedRuntime,
/// CapturingRuntime, InteropRuntime, ObservingRuntime and OrderObservingRuntime. If the runtime
/// does not model CapturingRuntime, PagedRuntime or InteropRuntime, the functions of that concept
/// throw std::logic_error, except that page_bytes() returns 0, parts_of() returns null, and
/// noexcept functions and Visit do nothing. If it does not model the observing concepts, their
/// functions do nothing.
class Backend {
 public:
  explicit Backend(BackendTraits const& of) noexcept : traits(of) {}
  virtual ~Backend();
  Backend(Backend const&) = delete;
  Backend& operator=(Backend const&) = delete;

  BackendTraits const traits;
  /// The runtime, an object of the type traits.type. Set by constructors of derived classes.
  void* object = nullptr;

  virtual NativeStream create_stream(StreamPriority priority, SmPartition partition) = 0;
  virtual void destroy_stream(NativeStream stream) noexcept = 0;
  virtual void synchronize_stream(NativeStream stream) = 0;

  virtual NativeEvent create_event(EventTiming timing) = 0;
  virtual void destroy_event(NativeEvent event) noexcept = 0;
  virtual void record(NativeEvent event, NativeStream stream) = 0;
  virtual void wait(NativeStream stream, NativeEvent event) = 0;
  virtual bool query(NativeEvent event) = 0;
  virtual void synchronize(NativeEvent event) = 0;
  virtual double elapsed_ns(NativeEvent begin, NativeEvent end) = 0;

  virtual void* allocate_device(std::size_t bytes) = 0;
  virtual void free_device(void* memory, std::size_t bytes) noexcept = 0;
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* memory, std::size_t bytes) noexcept = 0;
  virtual MemoryInfo memory_info() = 0;

  /// Returns the page size in bytes of a PagedRuntime, or 0 if the runtime has no pages.
  virtual std::size_t page_bytes() = 0;
  virtual void* reserve_addresses(std::size_t bytes) = 0;
  virtual void release_addresses(void* addresses, std::size_t bytes) noexcept = 0;
  virtual void map_pages(void* at, std::size_t bytes) = 0;
  virtual void move_pages(void* to, void* from, std::size_t bytes) = 0;
  virtual void leave_pages(void* from, std::size_t bytes) noexcept = 0;
  virtual void unmap_pages(void* at, std::size_t bytes) noexcept = 0;

  virtual void copy(
      void* to, void const* from, std::size_t bytes, CopyKind kind, NativeStream stream) = 0;
  virtual void fill(void* memory, std::uint8_t value, std::size_t bytes, NativeStream stream) = 0;
  virtual void call_host(NativeStream stream, Closure closure) = 0;

  virtual NativeLibraries create_libraries(LibraryOptions const& options) = 0;
  virtual void destroy_libraries(NativeLibraries libraries) noexcept = 0;
  /// Returns the argument with which the work of an operation is called on a CPU runtime. Throws
  /// std::logic_error unless traits.ref_kind is StreamRefKind::host.
  virtual HostStream host_ref(NativeStream stream, NativeLibraries libraries) = 0;
  /// Returns the argument with which the work of an operation is called on a CUDA runtime. Throws
  /// std::logic_error unless traits.ref_kind is StreamRefKind::cuda.
  virtual CudaStream cuda_ref(NativeStream stream, NativeLibraries libraries) = 0;
  /// Makes the runtime's device the calling thread's current device. Does nothing on a runtime
  /// without current devices.
  virtual void make_current() = 0;
  /// Returns the number of the runtime's device; -1 if it has none.
  virtual int ordinal() noexcept = 0;
  /// Returns the checker of a runtime that checks the order of its work; null for other runtimes.
  virtual Checker* checker() noexcept = 0;

  virtual void begin_capture(NativeStream stream) = 0;
  virtual bool is_capture_sound(NativeStream stream) = 0;
  virtual NativeGraph end_capture(NativeStream stream) = 0;
  virtual void abandon_capture(NativeStream stream) noexcept = 0;
  virtual void launch_graph(NativeGraph graph, NativeStream stream) = 0;
  virtual void destroy_graph(NativeGraph graph) noexcept = 0;
  /// Returns the operations that a launch of the graph runs; null if the runtime does not know
  /// them.
  virtual OperationParts parts_of(NativeGraph graph) = 0;

  virtual std::optional<ForeignStream> identify(NativeStream stream) = 0;
  /// A guard that owns the guard which InteropRuntime's visit() returns. Does nothing for a runtime
  /// that is no InteropRuntime.
  class Visit {
   public:
    explicit Visit(Backend& backend) : backend_(backend) { backend_.begin_visit(place_); }
    ~Visit() { backend_.end_visit(place_); }
    Visit(Visit const&) = delete;
    Visit& operator=(Visit const&) = delete;

    static constexpr std::size_t kBytes = 64;  ///< the largest guard of a runtime

   private:
    Backend& backend_;
    alignas(std::max_align_t) std::byte place_[kBytes];
  };

  virtual OperationHandle declare(Operation operation) = 0;
  virtual void operation_begins(OperationHandle const& operation, NativeStream stream) = 0;
  virtual void operation_given_up(OperationHandle const& operation) noexcept = 0;
  virtual void operation_ends(OperationHandle const& operation,
                              NativeStream stream,
                              Outcome outcome) noexcept = 0;
  virtual void foreign_work_begins(OperationHandle const& operation, NativeStream stream) = 0;
  virtual void foreign_work_ends(OperationHandle const& operation, NativeStream stream) = 0;
  virtual void memory_pooled(void const* memory, std::size_t bytes) = 0;
  virtual void memory_taken(void const* memory, std::size_t bytes) = 0;
  virtual void memory_returned(void const* memory, std::size_t bytes) noexcept = 0;
  virtual void host_uses(MemoryUse const& use) = 0;

  /// Tells an OrderObservingRuntime that an operation has its position, and returns whether the
  /// operation may be issued. Returns true for other runtimes.
  virtual bool operation_reserved(OperationHandle const& operation,
                                  NativeStream stream,
                                  TrackedOrder const& order) = 0;
  virtual void operation_issued(OperationHandle const& operation) = 0;
  virtual void position_marked(NativeStream stream,
                               void const* tracker,
                               order::Position position) = 0;
  virtual void position_launched(void const* tracker, order::Position position) noexcept = 0;
  virtual void stream_follows(NativeStream stream,
                              void const* tracker,
                              std::span<order::Position const> positions) = 0;
  virtual void host_follows(void const* tracker, order::Position position) = 0;
  virtual void stream_named(NativeStream stream, std::string_view name) = 0;

 protected:
  virtual void begin_visit(std::byte* place) = 0;
  virtual void end_visit(std::byte* place) noexcept = 0;
};

}  // namespace msstream::detail
