// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/interop.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace msstream {

class HostQueue;

/// A backend for machines without a GPU: one worker thread per stream, memory from the heap.
///
/// Priorities have no effect. A timed event has the time at which the stream's worker thread
/// reached it.
class Host {
 public:
  struct Event;
  struct Graph;

  struct Options {
    /// The size in bytes of the simulated device memory. 0: the size of the machine's physical
    /// memory.
    std::size_t memory_bytes = 0;
  };
  using native_stream = HostQueue*;
  using native_event = Event*;
  using native_graph = Graph*;
  using native_libraries = void*;  ///< always null: Eigen needs no handle
  using stream_ref = HostStream;

  static constexpr std::string_view name = "host";

  /// Makes a runtime whose streams are threads, and whose memory is that of the process.
  Host();
  explicit Host(Options options);
  ~Host();
  Host(Host const&) = delete;
  Host& operator=(Host const&) = delete;

  native_stream create_stream(StreamPriority priority);
  /// Destroys a stream without blocking. Its worker thread finishes the queued work, and is joined
  /// later, at the latest when the runtime is destroyed.
  void destroy_stream(native_stream stream) noexcept;
  void synchronize_stream(native_stream stream);

  native_event create_event(EventTiming timing);
  void destroy_event(native_event event) noexcept;
  void record(native_event event, native_stream stream);
  void wait(native_stream stream, native_event event);
  bool query(native_event event);
  void synchronize(native_event event);
  double elapsed_ns(native_event begin, native_event end);

  void* allocate_device(std::size_t bytes);
  void free_device(void* memory, std::size_t bytes) noexcept;
  void* allocate_pinned(std::size_t bytes);
  void free_pinned(void* memory, std::size_t bytes) noexcept;
  [[nodiscard]] MemoryInfo memory_info() const;

  // Implements PagedRuntime.
  [[nodiscard]] std::size_t page_bytes() const noexcept;
  void* reserve_addresses(std::size_t bytes);
  void release_addresses(void* addresses, std::size_t bytes) noexcept;
  void map_pages(void* at, std::size_t bytes);
  void move_pages(void* to, void* from, std::size_t bytes);
  void leave_pages(void* from, std::size_t bytes) noexcept;
  void unmap_pages(void* at, std::size_t bytes) noexcept;

  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream);
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream);
  void call_host(native_stream stream, Closure closure);

  native_libraries create_libraries(LibraryOptions const&) { return nullptr; }
  void destroy_libraries(native_libraries) noexcept {}
  [[nodiscard]] stream_ref ref(native_stream stream, native_libraries) const;

  // Implements CapturingRuntime. A launch runs the work of the graph on the stream's worker thread,
  // each time in another of the orders that the graph allows.
  void begin_capture(native_stream stream);
  [[nodiscard]] bool is_capture_sound(native_stream stream) const;
  native_graph end_capture(native_stream stream);
  void abandon_capture(native_stream stream) noexcept;
  void launch_graph(native_graph graph, native_stream stream);
  void destroy_graph(native_graph graph) noexcept;

  // Implements InteropRuntime. A guard does nothing, because the host runtime has no current
  // device.
  struct Visit {};
  [[nodiscard]] std::optional<ForeignStream> identify(native_stream stream) const;
  [[nodiscard]] Visit visit() const noexcept { return {}; }
  /// Does nothing: the host runtime has no current device.
  void make_current() const noexcept {}

 private:
  void take_bytes(std::size_t bytes);

  detail::HomeProcess home_;

  std::size_t memory_bytes_;
  std::atomic<std::size_t> allocated_bytes_{0};
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

}  // namespace msstream
