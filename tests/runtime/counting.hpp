// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/decorator.hpp>

#include <fmt/core.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::testing {

/// Counts the resources of a runtime that are not released yet, and the calls to the runtime.
/// Thread-safe.
struct Census {
  std::atomic<std::int64_t> streams{0};
  std::atomic<std::int64_t> events{0};
  std::atomic<std::int64_t> libraries{0};
  std::atomic<std::int64_t> graphs{0};
  std::atomic<std::int64_t> device_blocks{0};
  std::atomic<std::size_t> mapped_bytes{0};  ///< bytes of mapped pages
  std::atomic<std::size_t> left_bytes{0};    ///< bytes of moved pages, still at their old addresses
  std::atomic<std::size_t> device_bytes{0};  ///< bytes of device blocks and pages
  std::atomic<std::size_t> address_bytes{0};
  std::atomic<std::int64_t> pinned_blocks{0};
  std::atomic<std::size_t> pinned_bytes{0};

  /// The number of calls to the runtime, except those that enqueue copies, fills, host functions or
  /// graph launches.
  std::atomic<std::uint64_t> calls{0};
  /// The number of calls of record() and query(), which `calls` includes.
  std::atomic<std::uint64_t> event_calls{0};
  /// The highest value that `device_bytes` has had.
  std::atomic<std::size_t> most_device_bytes{0};

  /// Returns the sizes in bytes of all requests for device memory, in order.
  [[nodiscard]] std::vector<std::size_t> growths() const {
    std::lock_guard const guard(mutex_);
    return growths_;
  }
  /// Counts a request for device memory before the runtime is called, so that the peak is never too
  /// low when two threads allocate.
  void device_grows(std::size_t bytes) {
    auto const now = device_bytes.fetch_add(bytes) + bytes;
    for (auto most = most_device_bytes.load();
         most < now && !most_device_bytes.compare_exchange_weak(most, now);) {
    }
    std::lock_guard const guard(mutex_);
    growths_.push_back(bytes);
  }

  /// Returns the text of to_string() for a census without resources.
  [[nodiscard]] static std::string nothing();

 private:
  mutable std::mutex mutex_;
  std::vector<std::size_t> growths_;
};

/// Describes all resources that are not released yet.
[[nodiscard]] inline std::string to_string(Census const& census) {
  return fmt::format(
      "{} streams, {} events, {} libraries, {} graphs, {} device blocks and {} bytes of pages "
      "with {} bytes in all, {} bytes of addresses, {} pinned blocks of {} bytes",
      census.streams.load(),
      census.events.load(),
      census.libraries.load(),
      census.graphs.load(),
      census.device_blocks.load(),
      census.mapped_bytes.load() + census.left_bytes.load(),
      census.device_bytes.load(),
      census.address_bytes.load(),
      census.pinned_blocks.load(),
      census.pinned_bytes.load());
}

inline std::string Census::nothing() {
  return to_string(Census{});
}

template <Runtime R>
struct CountingOptions {
  typename R::Options runtime = {};
  std::shared_ptr<Census> census = std::make_shared<Census>();
};

/// A decorator for any runtime that counts its calls and the resources that must be released.
template <Runtime R>
class Counting : public RuntimeDecorator<R> {
  using Base = RuntimeDecorator<R>;

 public:
  using Options = CountingOptions<R>;
  using typename Base::native_event;
  using typename Base::native_libraries;
  using typename Base::native_stream;

  static constexpr std::string_view name = R::name;

  explicit Counting(Options const& options = {}) : Base(options.runtime), census_(options.census) {}

  native_stream create_stream(StreamPriority priority, SmPartition partition = {}) {
    called();
    auto const stream = msstream::create_stream(inner_, priority, partition);
    ++census_->streams;
    return stream;
  }
  void destroy_stream(native_stream stream) noexcept {
    called();
    --census_->streams;
    inner_.destroy_stream(stream);
  }
  void synchronize_stream(native_stream stream) {
    called();
    inner_.synchronize_stream(stream);
  }

  native_event create_event(EventTiming timing) {
    called();
    auto const event = inner_.create_event(timing);
    ++census_->events;
    return event;
  }
  void destroy_event(native_event event) noexcept {
    called();
    --census_->events;
    inner_.destroy_event(event);
  }
  void record(native_event event, native_stream stream) {
    called();
    ++census_->event_calls;
    inner_.record(event, stream);
  }
  void wait(native_stream stream, native_event event) {
    called();
    inner_.wait(stream, event);
  }
  bool query(native_event event) {
    called();
    ++census_->event_calls;
    return inner_.query(event);
  }
  void synchronize(native_event event) {
    called();
    inner_.synchronize(event);
  }
  double elapsed_ns(native_event begin, native_event end) {
    called();
    return inner_.elapsed_ns(begin, end);
  }

  void* allocate_device(std::size_t bytes) {
    void* const memory = growing(bytes, [&] { return inner_.allocate_device(bytes); });
    ++census_->device_blocks;
    return memory;
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    called();
    inner_.free_device(memory, bytes);
    --census_->device_blocks;
    census_->device_bytes -= bytes;
  }
  void* allocate_pinned(std::size_t bytes) {
    called();
    void* const memory = inner_.allocate_pinned(bytes);
    ++census_->pinned_blocks;
    census_->pinned_bytes += bytes;
    return memory;
  }
  void free_pinned(void* memory, std::size_t bytes) noexcept {
    called();
    --census_->pinned_blocks;
    census_->pinned_bytes -= bytes;
    inner_.free_pinned(memory, bytes);
  }
  [[nodiscard]] MemoryInfo memory_info() {
    called();
    return inner_.memory_info();
  }

  void* reserve_addresses(std::size_t bytes) requires PagedRuntime<R> {
    called();
    void* const addresses = inner_.reserve_addresses(bytes);
    census_->address_bytes += bytes;
    return addresses;
  }
  void release_addresses(void* addresses, std::size_t bytes) noexcept requires PagedRuntime<R> {
    called();
    census_->address_bytes -= bytes;
    inner_.release_addresses(addresses, bytes);
  }
  void map_pages(void* at, std::size_t bytes) requires PagedRuntime<R> {
    growing(bytes, [&] { inner_.map_pages(at, bytes); });
    census_->mapped_bytes += bytes;
  }
  void move_pages(void* to, void* from, std::size_t bytes) requires PagedRuntime<R> {
    called();
    inner_.move_pages(to, from, bytes);
    census_->left_bytes += bytes;
  }
  void leave_pages(void* from, std::size_t bytes) noexcept requires PagedRuntime<R> {
    called();
    inner_.leave_pages(from, bytes);
    census_->left_bytes -= bytes;
  }
  void unmap_pages(void* at, std::size_t bytes) noexcept requires PagedRuntime<R> {
    called();
    inner_.unmap_pages(at, bytes);
    census_->mapped_bytes -= bytes;
    census_->device_bytes -= bytes;
  }

  void begin_capture(native_stream stream) requires CapturingRuntime<R> {
    called();
    inner_.begin_capture(stream);
  }
  [[nodiscard]] bool is_capture_sound(native_stream stream) requires CapturingRuntime<R> {
    return inner_.is_capture_sound(stream);
  }
  [[nodiscard]] auto end_capture(native_stream stream) requires CapturingRuntime<R> {
    called();
    auto const graph = inner_.end_capture(stream);
    ++census_->graphs;
    return graph;
  }
  void abandon_capture(native_stream stream) noexcept requires CapturingRuntime<R> {
    called();
    inner_.abandon_capture(stream);
  }
  template <class Graph>
  void launch_graph(Graph graph, native_stream stream) requires CapturingRuntime<R> {
    inner_.launch_graph(graph, stream);
  }
  template <class Graph>
  void destroy_graph(Graph graph) noexcept requires CapturingRuntime<R> {
    called();
    --census_->graphs;
    inner_.destroy_graph(graph);
  }

  native_libraries create_libraries(LibraryOptions const& options) {
    called();
    auto libraries = inner_.create_libraries(options);
    ++census_->libraries;
    if constexpr (kHasNone) {
      libraries = census_.get();  // a null handle would never be destroyed
    }
    return libraries;
  }
  void destroy_libraries(native_libraries libraries) noexcept {
    called();
    --census_->libraries;
    inner_.destroy_libraries(libraries);
  }

 private:
  using Base::inner_;
  /// True for the host runtime, which has no library handles.
  static constexpr bool kHasNone = std::is_same_v<native_libraries, void*>;

  void called() noexcept { census_->calls.fetch_add(1, std::memory_order_relaxed); }
  /// Counts `bytes` of device memory and calls the runtime. If the call throws, the bytes are not
  /// counted.
  template <class Call>
  auto growing(std::size_t bytes, Call&& call) {
    called();
    census_->device_grows(bytes);
    try {
      return std::forward<Call>(call)();
    } catch (...) {
      census_->device_bytes -= bytes;
      throw;
    }
  }

  std::shared_ptr<Census> census_;
};

}  // namespace msstream::testing
