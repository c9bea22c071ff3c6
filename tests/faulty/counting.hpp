// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>
#include <msstream/runtime/decorator.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace msstream::testing {

/// What a runtime has given and not yet got back.
struct Census {
  std::atomic<std::int64_t> streams{0};
  std::atomic<std::int64_t> events{0};
  std::atomic<std::int64_t> libraries{0};
  std::atomic<std::int64_t> device_blocks{0};
  std::atomic<std::int64_t> device_bytes{0};
  std::atomic<std::int64_t> pinned_blocks{0};
  std::atomic<std::int64_t> pinned_bytes{0};

  [[nodiscard]] std::string describe() const {
    return text(streams.load(),
                " streams, ",
                events.load(),
                " events, ",
                libraries.load(),
                " libraries, ",
                device_blocks.load(),
                " device blocks of ",
                device_bytes.load(),
                " bytes, ",
                pinned_blocks.load(),
                " pinned blocks of ",
                pinned_bytes.load(),
                " bytes");
  }
  [[nodiscard]] static std::string nothing() { return Census{}.describe(); }
};

template <Runtime R>
struct CountingOptions {
  typename R::Options runtime = {};
  std::shared_ptr<Census> census = std::make_shared<Census>();
};

/// Any runtime, with everything counted that must be given back.
template <Runtime R>
class Counting : public RuntimeDecorator<R> {
  using Base = RuntimeDecorator<R>;
  using Base::inner_;

 public:
  using Options = CountingOptions<R>;
  using typename Base::native_event;
  using typename Base::native_libraries;
  using typename Base::native_stream;

  static constexpr std::string_view name = R::name;

  explicit Counting(Options const& options = {}) : Base(options.runtime), census_(options.census) {}

  native_stream create_stream(StreamPriority priority) {
    auto const stream = inner_.create_stream(priority);
    ++census_->streams;
    return stream;
  }
  void destroy_stream(native_stream stream) noexcept {
    --census_->streams;
    inner_.destroy_stream(stream);
  }
  native_event create_event(EventTiming timing) {
    auto const event = inner_.create_event(timing);
    ++census_->events;
    return event;
  }
  void destroy_event(native_event event) noexcept {
    --census_->events;
    inner_.destroy_event(event);
  }
  void* allocate_device(std::size_t bytes) {
    void* const memory = inner_.allocate_device(bytes);
    ++census_->device_blocks;
    census_->device_bytes += static_cast<std::int64_t>(bytes);
    return memory;
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    --census_->device_blocks;
    census_->device_bytes -= static_cast<std::int64_t>(bytes);
    inner_.free_device(memory, bytes);
  }
  void* allocate_pinned(std::size_t bytes) {
    void* const memory = inner_.allocate_pinned(bytes);
    ++census_->pinned_blocks;
    census_->pinned_bytes += static_cast<std::int64_t>(bytes);
    return memory;
  }
  void free_pinned(void* memory, std::size_t bytes) noexcept {
    --census_->pinned_blocks;
    census_->pinned_bytes -= static_cast<std::int64_t>(bytes);
    inner_.free_pinned(memory, bytes);
  }
  native_libraries create_libraries(std::size_t workspace_bytes) {
    auto libraries = inner_.create_libraries(workspace_bytes);
    ++census_->libraries;
    if constexpr (kHasNone) {
      libraries = census_.get();  // null would never be given back
    }
    return libraries;
  }
  void destroy_libraries(native_libraries libraries) noexcept {
    --census_->libraries;
    inner_.destroy_libraries(libraries);
  }

 private:
  /// The host runtime has no libraries and ignores the handle.
  static constexpr bool kHasNone = std::is_same_v<native_libraries, void*>;

  std::shared_ptr<Census> census_;
};

}  // namespace msstream::testing
