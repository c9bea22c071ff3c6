// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/decorator.hpp>
#include <msstream/runtime/fault_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

/// Wraps any runtime, and makes one of its calls fail, to test how a program reacts:
///
///     auto const plan = std::make_shared<FaultPlan>();
///     Device<Faulty<Host>> device({.runtime = {.plan = plan}});
///     plan->fail(3, Fault::launch_failure);  // the third call from now on
///
/// A call that fails has no effect. Destroying and freeing never fail. After a sticky fault the
/// device runs nothing more: a call that fails, or frees, first blocks the host until all work
/// given to the device is complete, which is what the failure of a lost device means.
template <Runtime R>
class Faulty : public RuntimeDecorator<R> {
  using Base = RuntimeDecorator<R>;
  using Base::inner_;

 public:
  struct Options {
    typename R::Options runtime = {};  ///< of the runtime whose calls fail
    /// The plan that decides which runtime call fails. The test keeps a copy of the pointer, to
    /// change the plan and to read its records. Two devices may share one plan.
    std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  };
  using typename Base::native_event;
  using typename Base::native_libraries;
  using typename Base::native_stream;

  static constexpr std::string_view name = R::name;

  /// Makes the runtime, without a call that fails unless the plan has one.
  explicit Faulty(Options const& options = {}) : Base(options.runtime), plan_(options.plan) {
    require(plan_ != nullptr, "Faulty: no plan");
  }
  ~Faulty() {
    for (auto const event : tails_) {
      inner_.destroy_event(event);
    }
  }

  /// Returns the plan, by which the test chooses the call that fails.
  [[nodiscard]] std::shared_ptr<FaultPlan> const& plan() const noexcept { return plan_; }

  native_stream create_stream(StreamPriority priority, SmPartition partition = {}) {
    pass(RuntimeCall::create_stream);
    std::lock_guard const guard(mutex_);
    streams_.reserve(streams_.size() + 1);
    return streams_.emplace_back(msstream::create_stream(inner_, priority, partition));
  }
  void destroy_stream(native_stream stream) noexcept {
    {
      std::lock_guard const guard(mutex_);
      std::erase(streams_, stream);
      remember_tail(stream);
    }
    inner_.destroy_stream(stream);
  }
  void synchronize_stream(native_stream stream) {
    pass(RuntimeCall::synchronize_stream);
    inner_.synchronize_stream(stream);
  }

  native_event create_event(EventTiming timing) {
    pass(RuntimeCall::create_event);
    return inner_.create_event(timing);
  }
  void record(native_event event, native_stream stream) {
    pass(RuntimeCall::record);
    inner_.record(event, stream);
  }
  void wait(native_stream stream, native_event event) {
    pass(RuntimeCall::wait);
    inner_.wait(stream, event);
  }
  bool query(native_event event) {
    pass(RuntimeCall::query);
    return inner_.query(event);
  }
  void synchronize(native_event event) {
    pass(RuntimeCall::synchronize);
    inner_.synchronize(event);
  }
  double elapsed_ns(native_event begin, native_event end) {
    pass(RuntimeCall::elapsed_ns);
    return inner_.elapsed_ns(begin, end);
  }

  void* allocate_device(std::size_t bytes) {
    pass(RuntimeCall::allocate_device, bytes);
    return inner_.allocate_device(bytes);
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    finish_if_lost();
    inner_.free_device(memory, bytes);
  }
  void* allocate_pinned(std::size_t bytes) {
    pass(RuntimeCall::allocate_pinned, bytes);
    return inner_.allocate_pinned(bytes);
  }
  void free_pinned(void* memory, std::size_t bytes) noexcept {
    finish_if_lost();
    inner_.free_pinned(memory, bytes);
  }
  void* reserve_addresses(std::size_t bytes) requires PagedRuntime<R> {
    pass(RuntimeCall::reserve_addresses);
    return inner_.reserve_addresses(bytes);
  }
  void map_pages(void* at, std::size_t bytes) requires PagedRuntime<R> {
    pass(RuntimeCall::map_pages, bytes);
    inner_.map_pages(at, bytes);
  }
  void move_pages(void* to, void* from, std::size_t bytes) requires PagedRuntime<R> {
    pass(RuntimeCall::move_pages, bytes);
    inner_.move_pages(to, from, bytes);
  }
  void leave_pages(void* from, std::size_t bytes) noexcept requires PagedRuntime<R> {
    finish_if_lost();
    inner_.leave_pages(from, bytes);
  }
  void unmap_pages(void* at, std::size_t bytes) noexcept requires PagedRuntime<R> {
    finish_if_lost();
    inner_.unmap_pages(at, bytes);
  }
  [[nodiscard]] MemoryInfo memory_info() {
    pass(RuntimeCall::memory_info);
    return inner_.memory_info();
  }

  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream) {
    pass(RuntimeCall::copy);
    inner_.copy(to, from, bytes, kind, stream);
  }
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
    pass(RuntimeCall::fill);
    inner_.fill(memory, value, bytes, stream);
  }
  void call_host(native_stream stream, Closure closure) {
    pass(RuntimeCall::call_host);
    inner_.call_host(stream, std::move(closure));
  }

  void begin_capture(native_stream stream) requires CapturingRuntime<R> {
    pass(RuntimeCall::begin_capture);
    inner_.begin_capture(stream);
  }
  [[nodiscard]] bool is_capture_sound(native_stream stream) requires CapturingRuntime<R> {
    if (plan_->lost()) {
      detail::throw_fault(Fault::sticky, RuntimeCall::end_capture, 0);
    }
    return inner_.is_capture_sound(stream);
  }
  /// Ends the capture that began on the stream, even if the plan makes the call fail.
  [[nodiscard]] auto end_capture(native_stream stream) requires CapturingRuntime<R> {
    try {
      pass(RuntimeCall::end_capture);
    } catch (...) {
      inner_.abandon_capture(stream);
      throw;
    }
    return inner_.end_capture(stream);
  }
  void abandon_capture(native_stream stream) noexcept requires CapturingRuntime<R> {
    inner_.abandon_capture(stream);
  }
  template <class Graph>
  void launch_graph(Graph graph, native_stream stream) requires CapturingRuntime<R> {
    pass(RuntimeCall::launch_graph);
    inner_.launch_graph(graph, stream);
  }
  template <class Graph>
  void destroy_graph(Graph graph) noexcept requires CapturingRuntime<R> {
    finish_if_lost();
    inner_.destroy_graph(graph);
  }

  native_libraries create_libraries(LibraryOptions const& options) {
    pass(RuntimeCall::create_libraries);
    return inner_.create_libraries(options);
  }
  void destroy_libraries(native_libraries libraries) noexcept {
    finish_if_lost();
    inner_.destroy_libraries(libraries);
  }

  void operation_begins(OperationHandle const& operation, native_stream stream) {
    operation_ = operation.get();
    try {
      pass(RuntimeCall::launch);
      Base::operation_begins(operation, stream);
    } catch (...) {
      operation_ = nullptr;
      throw;
    }
  }
  void operation_ends(OperationHandle const& operation,
                      native_stream stream,
                      Outcome outcome) noexcept {
    Base::operation_ends(operation, stream, outcome);
    operation_ = nullptr;
  }

 private:
  void pass(RuntimeCall call, std::size_t bytes = 0) {
    auto const fault = plan_->count(
        call, operation_ != nullptr ? std::string_view(operation_->name) : std::string_view());
    if (fault) {
      finish_if_lost();
      detail::throw_fault(*fault, call, bytes);
    }
  }

  /// Records an event at the end of a stream that is being destroyed, because the stream's work
  /// still runs. The caller holds the mutex.
  void remember_tail(native_stream stream) noexcept {
    try {
      std::erase_if(tails_, [this](native_event event) {
        bool const over = is_over(event);
        if (over) {
          inner_.destroy_event(event);
        }
        return over;
      });
      tails_.reserve(tails_.size() + 1);
      tails_.push_back(inner_.create_event(EventTiming::untimed));
      inner_.record(tails_.back(), stream);
    } catch (...) {
      ignoring_failure([&] { inner_.synchronize_stream(stream); });
    }
  }
  bool is_over(native_event event) noexcept {
    bool over = true;  // failed work is complete, too
    ignoring_failure([&] { over = inner_.query(event); });
    return over;
  }
  void finish_if_lost() noexcept {
    if (!plan_->lost()) {
      return;
    }
    std::lock_guard const guard(mutex_);
    for (auto const stream : streams_) {
      ignoring_failure([&] { inner_.synchronize_stream(stream); });
    }
    for (auto const event : tails_) {
      ignoring_failure([&] { inner_.synchronize(event); });
    }
  }
  template <class Call>
  static void ignoring_failure(Call&& call) noexcept {
    try {
      std::forward<Call>(call)();
    } catch (...) {  // NOLINT(bugprone-empty-catch): failed work is complete
    }
  }

  /// The operation whose work the calling thread is launching; null if none.
  static inline constinit thread_local Operation const* operation_ = nullptr;

  std::shared_ptr<FaultPlan> plan_;
  std::mutex mutex_;
  std::vector<native_stream> streams_;
  std::vector<native_event> tails_;  ///< events at the ends of destroyed streams
};

}  // namespace msstream
