// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/runtimes.hpp"
#include "runtime/counting.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace msstream::testing {

/// Counts the calls of a runtime, and has callbacks that some of the calls run for the test.
struct Watch : Census {
  std::function<void()> host_waits = [] {};  ///< called when the host starts to wait
  std::function<void()> gives_back = [] {};  ///< called when device memory is freed
  /// Called when the library handles of a stream group, and so the group's workspace, are
  /// destroyed.
  std::function<void()> gives_back_libraries = [] {};
};

/// Makes the gate open when the host starts to wait, and adds "free" to the journal when device
/// memory is freed. Memory freed without a wait then appears in the journal before the work behind
/// the gate.
inline void watch_waits(Watch& watch, Gate& gate, Journal journal) {
  watch.host_waits = [&gate] { gate.open(); };
  watch.gives_back = [&gate, journal = std::move(journal)]() mutable {
    journal.add("free");
    gate.open();  // too late for the order, but a test that fails must not hang
  };
}

template <Runtime R>
struct WatchedOptions {
  typename R::Options runtime = {};
  std::shared_ptr<Watch> watch = std::make_shared<Watch>();
};

/// A decorator for any runtime that counts its calls and reports some of them to the test.
template <Runtime R>
class Watched : public Counting<R> {
  using Base = Counting<R>;

 public:
  using Options = WatchedOptions<R>;
  using typename Base::native_event;
  using typename Base::native_libraries;
  using typename Base::native_stream;

  explicit Watched(Options const& options = {})
      : Base({options.runtime, options.watch}), watch_(options.watch) {}

  [[nodiscard]] Watch& watch() const noexcept { return *watch_; }

  void synchronize_stream(native_stream stream) {
    watch_->host_waits();
    Base::synchronize_stream(stream);
  }
  void synchronize(native_event event) {
    watch_->host_waits();
    Base::synchronize(event);
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    watch_->gives_back();
    Base::free_device(memory, bytes);
  }
  void unmap_pages(void* at, std::size_t bytes) noexcept requires PagedRuntime<R> {
    watch_->gives_back();
    Base::unmap_pages(at, bytes);
  }
  void destroy_libraries(native_libraries libraries) noexcept {
    watch_->gives_back_libraries();
    Base::destroy_libraries(libraries);
  }

 private:
  std::shared_ptr<Watch> watch_;
};
static_assert(PagedRuntime<Watched<Host>>);

/// True for the CUDA runtime, also inside decorators.
template <class R>
inline constexpr bool is_cuda = R::name == std::string_view("cuda");

template <Runtime R>
[[nodiscard]] Watch& watch_of(Device<Watched<R>> const& device) {
  return device.runtime().watch();
}

/// Returns a device whose runtime counts its calls.
template <Runtime R>
[[nodiscard]] Device<Watched<R>> watched_device(AllocatorOptions memory,
                                                std::shared_ptr<Watch> watch = nullptr) {
  DeviceOptions<Watched<R>> options;
  options.memory = std::move(memory);
  if (watch != nullptr) {
    options.runtime.watch = std::move(watch);
  }
  return Device<Watched<R>>(options);
}

}  // namespace msstream::testing
