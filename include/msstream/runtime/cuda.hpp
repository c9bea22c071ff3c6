// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_CUDA

#include <msstream/base/closure.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/interop.hpp>
#include <msstream/runtime/paged.hpp>
#include <msstream/runtime/partitioning.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct CUevent_st;

namespace msstream {

class Cuda;
template <>
inline constexpr RuntimeLife life_of<Cuda> = RuntimeLife::driver;

namespace detail {
class CudaPages;
class CudaCaptures;
class CudaSmParts;
class HostFailure;
struct CudaGraph;
}  // namespace detail

/// A backend over the CUDA runtime API, with non-blocking streams and without implicit
/// synchronisation. Includes no CUDA header.
///
/// If the calling thread has last used another device through msstream, a call makes this device
/// current. A thread that calls cudaSetDevice itself must set the device back before it issues.
///
/// exit() waits for the work of all devices and then ends the driver. If an object made from a
/// device lives longer, as static objects may, it no longer calls the driver, and its use throws.
/// In a child of fork() whose parent has used CUDA, every use throws, too: std::logic_error.
class Cuda {
 public:
  struct Options {
    int ordinal = 0;  ///< the number of the GPU
  };
  using native_stream = CUstream_st*;
  using native_event = CUevent_st*;
  using native_graph = detail::CudaGraph*;
  using native_libraries = CudaStream::Libraries*;
  using stream_ref = CudaStream;

  static constexpr std::string_view name = "cuda";

  /// Returns the number of GPUs that the process sees. 0 without a driver, and in a child of fork()
  /// whose parent has used the driver through msstream.
  static int device_count() noexcept;
  /// Says why device_count() is 0, such as a driver that is older than this build needs, with both
  /// versions of CUDA; empty if there is a GPU.
  [[nodiscard]] static std::string why_no_device();

  /// Uses GPU 0. Throws CudaError if there is none.
  Cuda();
  /// Uses the GPU number `options.ordinal`. Throws CudaError if there is no such GPU.
  explicit Cuda(Options options);
  ~Cuda();
  Cuda(Cuda const&) = delete;
  Cuda& operator=(Cuda const&) = delete;

  native_stream create_stream(StreamPriority priority);
  // Implements PartitioningRuntime, by green contexts.
  native_stream create_stream(StreamPriority priority, SmPartition partition);
  [[nodiscard]] int most_sm_parts() const noexcept;
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

  // Implements PagedRuntime, by CUDA's virtual memory management.
  [[nodiscard]] std::size_t page_bytes() const;
  void* reserve_addresses(std::size_t bytes);
  void release_addresses(void* addresses, std::size_t bytes) noexcept;
  void map_pages(void* at, std::size_t bytes);
  void move_pages(void* to, void* from, std::size_t bytes);
  void leave_pages(void* from, std::size_t bytes) noexcept;
  void unmap_pages(void* at, std::size_t bytes) noexcept;

  /// Returns whether the host memory is pinned, by msstream or by other code.
  [[nodiscard]] bool is_pinned(void const* host_memory) const;
  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream);
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream);
  /// Enqueues `closure` as a host function. If it throws, the next synchronisation with the device
  /// throws that exception, once: a wait for a stream or an event, or a query that finds an event
  /// complete. If the program makes no such call, the exception is written to the log.
  void call_host(native_stream stream, Closure closure);

  // Implements CapturingRuntime by CUDA's relaxed capture mode, which does not restrict other
  // threads.
  void begin_capture(native_stream stream);
  [[nodiscard]] bool is_capture_sound(native_stream stream) const;
  native_graph end_capture(native_stream stream);
  void abandon_capture(native_stream stream) noexcept;
  void launch_graph(native_graph graph, native_stream stream);
  void destroy_graph(native_graph graph) noexcept;

  native_libraries create_libraries(LibraryOptions const& options);
  void destroy_libraries(native_libraries libraries) noexcept;
  [[nodiscard]] stream_ref ref(native_stream stream, native_libraries libraries) const {
    return {stream, libraries};
  }
  void make_current() const;  ///< Makes the device that of the calling thread.

  // Implements InteropRuntime. CUDA's default streams get ids from msstream; each thread's default
  // stream is a stream of its own.
  class Visit {
   public:
    explicit Visit(int ordinal) noexcept;
    ~Visit();
    Visit(Visit const&) = delete;
    Visit& operator=(Visit const&) = delete;

   private:
    int device_before_ = -1;  ///< -1 if there is nothing to restore
    int capture_mode_before_;
  };
  [[nodiscard]] std::optional<ForeignStream> identify(native_stream stream) const;
  [[nodiscard]] Visit visit() const noexcept { return Visit(ordinal_); }
  /// Returns the number of the device, from 0.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }

 private:
  /// Records that the calling thread's current device is unknown, because other code has set it.
  static void forget_current() noexcept;

  detail::HomeProcess home_{RuntimeLife::driver};
  int ordinal_;
  std::unique_ptr<detail::CudaPages> pages_;
  std::unique_ptr<detail::CudaCaptures> captures_;
  std::unique_ptr<detail::CudaSmParts> sm_parts_;
  std::shared_ptr<detail::HostFailure> host_failure_;
};

/// The overhead of timed events on CUDA, measured on one H200: an empty kernel takes 2.6 us between
/// two events, and 0.5 us from one kernel to the next in a graph.
template <>
inline constexpr double timed_on_top_ns<Cuda> = 2600;

static_assert(PagedRuntime<Cuda>);
static_assert(InteropRuntime<Cuda>);
static_assert(CapturingRuntime<Cuda>);
static_assert(PartitioningRuntime<Cuda>);

}  // namespace msstream

#endif
