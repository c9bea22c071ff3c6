// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/device_declared.hpp>
#include <msstream/tensor/detail/any_issue.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream {

/// A type whose uses are tracked: a Tensor or a PinnedArray.
template <class T>
concept Tracked = requires(T const& tracked) {
  typename T::runtime_type;
  { tracked.block() } -> std::convertible_to<memory::BlockRef>;
  { tracked.data() } -> std::convertible_to<void const*>;
  { tracked.bytes() } -> std::same_as<std::size_t>;
};

namespace detail {

template <Runtime R>
struct RawMemory {
  std::shared_ptr<DeviceState> device;
  void const* begin;
  std::size_t bytes;
};

}  // namespace detail

/// Describes `count` elements at `memory`, device memory that msstream does not track, for reads()
/// and writes(). No operation waits for the uses of the memory: the caller must order them, and a
/// checking runtime reports missing order.
template <class T, Runtime R>
[[nodiscard]] detail::RawMemory<R> raw_memory(Device<R> const& device,
                                              T const* memory,
                                              std::size_t count) {
  return {device.state(), memory, count * sizeof(T)};
}

namespace detail {

/// A vector, array or other range of tensors.
template <class T>
concept RangeOfTensors = requires(T const& range) {
  std::begin(range);
  std::end(range);
  requires Tracked<std::remove_cvref_t<decltype(*std::begin(range))>>;
};

/// The tensors that an operation reads, or those that it writes, on devices of one runtime type.
template <Runtime R, AccessMode Mode>
class Uses {
 public:
  template <Tracked T>
    requires std::same_as<typename T::runtime_type, R>
  void add(T const& tracked) { any_.add(*tracked.block(), tracked.data(), tracked.bytes()); }
  /// Adds a tensor of any element type. For use by the library only.
  void add(AnyTensor const& tensor) requires std::same_as<R, AnyRuntime> { any_.add(tensor); }
  void add(RawMemory<R> const& raw) { any_.add_raw(*raw.device, raw.begin, raw.bytes); }
  template <RangeOfTensors Tensors>
  void add(Tensors const& tensors) {
    for (auto const& tensor : tensors) {
      add(tensor);
    }
  }
  void add(Uses const& others) { any_.add(others.any_); }
  /// Changes the mode of all uses in the list to AccessMode::accumulate: additions that commute.
  void accumulate() noexcept { any_.accumulate(); }
  [[nodiscard]] AnyUses const& any() const noexcept { return any_; }

 private:
  AnyUses any_{Mode};
};

template <class T>
struct RuntimeOf {
  using type = typename T::runtime_type;
};
template <>
struct RuntimeOf<AnyTensor> {
  using type = AnyRuntime;
};
template <Runtime R>
struct RuntimeOf<RawMemory<R>> {
  using type = R;
};
template <Runtime R, AccessMode Mode>
struct RuntimeOf<Uses<R, Mode>> {
  using type = R;
};
template <RangeOfTensors Tensors>
struct RuntimeOf<Tensors> {
  using type = typename std::remove_cvref_t<decltype(*std::begin(
      std::declval<Tensors const&>()))>::runtime_type;
};

template <AccessMode Mode, class First, class... Rest>
auto uses(First const& first, Rest const&... rest) {
  Uses<typename RuntimeOf<First>::type, Mode> list;
  list.add(first);
  (list.add(rest), ...);
  return list;
}

}  // namespace detail

/// Lists the tensors (or ranges of tensors) that an operation reads.
template <class... Tensors>
auto reads(Tensors const&... tensors) {
  return detail::uses<AccessMode::read>(tensors...);
}
/// Lists the tensors (or ranges of tensors) that an operation writes; the operation may read them
/// too.
template <class... Tensors>
auto writes(Tensors const&... tensors) {
  return detail::uses<AccessMode::write>(tensors...);
}

/// Lists the tensors (or ranges of tensors, or raw memory) that an operation adds into, as with
/// atomic additions, so that operations that add into the same memory commute. Used in place of
/// writes(), or within it, as in `writes(y, accumulates(sums))`.
///
/// Tensors are ordered as if they were written, so sums have the same bits in every run. Raw memory
/// must be ordered by the caller, and between operations that accumulate into it, a checking
/// runtime requires no order.
template <class... Tensors>
auto accumulates(Tensors const&... tensors) {
  auto list = writes(tensors...);
  list.accumulate();
  return list;
}

/// Wraps the work of an operation that calls the runtime itself: the function is called with the
/// stream's native handle instead of a HostStream or CudaStream.
template <class F>
struct NativeWork {
  F put_on;  ///< called with the native stream
};
template <class F>
NativeWork(F) -> NativeWork<F>;

struct IssueOptions {
  StreamKind stream = StreamKind::compute;  ///< the stream of the group that the work is put on
};

/// Issues an operation. All work goes through this function:
///
///     issue("scale", reads(x), writes(y), [=](auto stream) { … });
///
/// Puts the operation on the current scope's group, or where a StreamPool with an assignment or
/// propagation places it. The operation comes after everything that it must follow (the last writes
/// of its inputs, the last writes and reads of its outputs) and nothing else. Calls `work(stream)`
/// once, with a CudaStream, which is usable as a cudaStream_t, or a HostStream, whose run() takes
/// the work: on the calling thread, or on a launch thread if the pool has them. The host does not
/// wait for the device; a calling thread waits until launch threads have launched the work that the
/// operation follows. `name` must outlive the program's work: use a literal. Memory in `read` and
/// `written` may be released as soon as issue() returns. Thread-safe. Throws the exceptions of
/// `work` (from a launch thread: at a later call), and std::logic_error for a write to an immutable
/// tensor. `issued_at` is for the reports of a checking runtime.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::read> const& read,
                      detail::Uses<R, AccessMode::write> const& written,
                      Work&& work,
                      IssueOptions const& options = {},
                      std::source_location issued_at = std::source_location::current()) {
  return detail::issue_any(name,
                           &read.any(),
                           &written.any(),
                           detail::WorkRef::of<R>(std::forward<Work>(work)),
                           options,
                           issued_at);
}
/// Issues an operation that reads no tensor.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::write> const& written,
                      Work&& work,
                      IssueOptions const& options = {},
                      std::source_location issued_at = std::source_location::current()) {
  return detail::issue_any(name,
                           nullptr,
                           &written.any(),
                           detail::WorkRef::of<R>(std::forward<Work>(work)),
                           options,
                           issued_at);
}
/// Issues an operation that writes no tensor.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::read> const& read,
                      Work&& work,
                      IssueOptions const& options = {},
                      std::source_location issued_at = std::source_location::current()) {
  return detail::issue_any(name,
                           &read.any(),
                           nullptr,
                           detail::WorkRef::of<R>(std::forward<Work>(work)),
                           options,
                           issued_at);
}

}  // namespace msstream
