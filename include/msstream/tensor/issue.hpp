// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/inline_vector.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/stream/access.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <mutex>
#include <ranges>
#include <source_location>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream {

/// A type whose uses are tracked: a Tensor or a PinnedArray.
template <class T>
concept Tracked = requires(T const& tracked) {
  typename T::runtime_type;
  { tracked.block() } -> std::convertible_to<memory::BlockRef<typename T::runtime_type>>;
  { tracked.data() } -> std::convertible_to<void const*>;
  { tracked.bytes() } -> std::same_as<std::size_t>;
};

/// Device memory that msstream does not track. An operation may name it among its reads and writes,
/// but no operation waits for its uses: the caller must order them, and a checking runtime reports
/// where that order is missing.
template <Runtime R = DefaultRuntime>
struct RawMemory {
  std::shared_ptr<DeviceState<R>> device;
  void const* begin;
  std::size_t bytes;
};

/// Returns `count` elements at `memory`, for reads() and writes().
template <class T, Runtime R>
[[nodiscard]] RawMemory<R> raw_memory(Device<R> const& device, T const* memory, std::size_t count) {
  return {device.state(), memory, count * sizeof(T)};
}

namespace detail {

/// The tensors that an operation reads, or those that it writes.
template <Runtime R, AccessMode Mode>
class Uses {
 public:
  template <Tracked T>
  void add(T const& tracked) {
    blocks_.push_back(&*tracked.block());
    note(tracked.data(), tracked.bytes(), true);
  }
  void add(RawMemory<R> const& raw) {
    device_ = raw.device.get();
    note(raw.begin, raw.bytes, false);
  }
  template <std::ranges::range Tensors>
    requires Tracked<std::ranges::range_value_t<Tensors>>
  void add(Tensors const& tensors) {
    for (auto const& tensor : tensors) {
      add(tensor);
    }
  }
  void add(Uses const& others) {
    for (auto* const block : others.blocks_) {
      blocks_.push_back(block);
    }
    device_ = others.device_ != nullptr ? others.device_ : device_;
    if constexpr (ObservingRuntime<R>) {
      noted_.insert(noted_.end(), others.noted_.begin(), others.noted_.end());
    }
  }
  /// Marks all uses in the list as additions (AccessMode::accumulate).
  void accumulate() {
    if constexpr (ObservingRuntime<R>) {
      for (auto& use : noted_) {
        use.mode = AccessMode::accumulate;
      }
    }
  }
  [[nodiscard]] auto const& blocks() const noexcept { return blocks_; }
  /// Returns the device of raw memory in the list. Null if there is no raw memory.
  [[nodiscard]] DeviceState<R>* device() const noexcept { return device_; }
  /// Appends the byte ranges of all uses, which are kept only for an ObservingRuntime.
  void append_to(std::vector<MemoryUse>& uses) const {
    if constexpr (ObservingRuntime<R>) {
      uses.insert(uses.end(), noted_.begin(), noted_.end());
    }
  }

 private:
  void note(void const* begin, std::size_t bytes, bool tracked) {
    if constexpr (ObservingRuntime<R>) {
      noted_.push_back({begin, bytes, Mode, 0, tracked});
    }
  }

  InlineVector<memory::Block<R>*, 8> blocks_;
  DeviceState<R>* device_ = nullptr;
  [[no_unique_address]] std::conditional_t<ObservingRuntime<R>, std::vector<MemoryUse>, NoOperation>
      noted_;
};

template <class T>
struct RuntimeOf {
  using type = typename T::runtime_type;
};
template <Runtime R>
struct RuntimeOf<RawMemory<R>> {
  using type = R;
};
template <Runtime R, AccessMode Mode>
struct RuntimeOf<Uses<R, Mode>> {
  using type = R;
};
template <std::ranges::range Tensors>
struct RuntimeOf<Tensors> {
  using type = typename std::ranges::range_value_t<Tensors>::runtime_type;
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
/// Lists the tensors (or ranges of tensors) that an operation writes; it may read them too.
template <class... Tensors>
auto writes(Tensors const&... tensors) {
  return detail::uses<AccessMode::write>(tensors...);
}

/// Lists the tensors (or ranges of tensors, or raw memory) that an operation adds into, as with
/// atomic additions, so that it commutes with other operations that do. Used in place of writes(),
/// or within it, as in `writes(y, accumulates(sums))`.
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

struct IssueOptions {
  StreamKind stream = StreamKind::compute;  ///< the stream of the group that the work is put on
};

namespace detail {

/// Returns `device`. Throws std::invalid_argument if `before` has another tracker, because
/// positions of two trackers cannot be compared.
template <Runtime R>
DeviceState<R>* same_tracker(char const* name, DeviceState<R>* before, DeviceState<R>* device) {
  if (before != nullptr && before != device &&
      before->context->tracker != device->context->tracker) {
    throw std::invalid_argument(
        text("operation '",
             NameScope::qualify(name),
             "' names tensors of devices that do not share a tracker: see DeviceOptions::tracker"));
  }
  return device;
}

/// Describes the operation to an ObservingRuntime.
template <Runtime R>
Observed<R> describe(char const* name,
                     StreamGroup<R>& group,
                     DeviceState<R> const& device,
                     Uses<R, AccessMode::read> const* read,
                     Uses<R, AccessMode::write> const* written,
                     IssueOptions const& options,
                     std::source_location issued_at) {
  std::vector<MemoryUse> uses;
  if (read != nullptr) {
    read->append_to(uses);
  }
  if (written != nullptr) {
    written->append_to(uses);
  }
  auto const* const scope = StreamScope<R>::current(*device.context);
  auto const opened_at = scope != nullptr ? scope->opened_at() : std::source_location();
  return group.describe(name, options.stream, std::move(uses), issued_at, opened_at);
}

/// Returns the accesses of an operation as the calling thread's capture on the device notes them.
template <CapturingRuntime R>
AccessSet captured_accesses(DeviceState<R> const& device,
                            Uses<R, AccessMode::read> const* read,
                            Uses<R, AccessMode::write> const* written) {
  auto& capture = memory::Capture<R>::of_this_thread(*device.context);
  AccessSet accesses;
  auto const add_each = [&](auto const& blocks, AccessMode mode) {
    for (auto* const block : blocks) {
      if (auto* const record = capture.record_of(*block, mode)) {
        accesses.add(*record, mode);
      }
    }
  };
  if (read != nullptr) {
    add_each(read->blocks(), AccessMode::read);
  }
  if (written != nullptr) {
    add_each(written->blocks(), AccessMode::write);
  }
  return accesses;
}

template <Runtime R, AccessMode Mode>
std::span<memory::Block<R>* const> span_of(Uses<R, Mode> const* uses) {
  return uses == nullptr
             ? std::span<memory::Block<R>* const>()
             : std::span<memory::Block<R>* const>(uses->blocks().begin(), uses->blocks().size());
}

/// Returns the group that last wrote the first input that any group of the placement's pool wrote.
/// Null if there is no such input. In a capture, writes in the capture count before earlier ones.
template <Runtime R>
StreamGroup<R>* writer_of(Placement<R> const& placement,
                          DeviceState<R> const& device,
                          Uses<R, AccessMode::read> const& read) {
  for (auto* const block : read.blocks()) {
    if (block->immutable) {
      continue;
    }
    StreamGroup<R>* writer = nullptr;
    if constexpr (CapturingRuntime<R>) {
      if (auto* const capture = memory::Capture<R>::current(*device.context)) {
        writer = capture->writer_of(*block);
        if (writer != nullptr && !placement.contains(*writer)) {
          continue;
        }
      }
    }
    if (writer == nullptr) {
      std::lock_guard const guard(block->record.lock);
      writer = placement.writer(block->record.log);
    }
    if (writer != nullptr) {
      return writer;
    }
  }
  return nullptr;
}

template <Runtime R>
order::Position issue(char const* name,
                      Uses<R, AccessMode::read> const* read,
                      Uses<R, AccessMode::write> const* written,
                      WorkRef<R> work,
                      IssueOptions const& options,
                      std::source_location issued_at) {
  AccessSet accesses;
  DeviceState<R>* device = nullptr;
  if (read != nullptr) {
    device = read->device();
    for (auto* const block : read->blocks()) {
      device = same_tracker(name, device, block->device->get());
      if (!block->immutable) {
        accesses.add(block->record, AccessMode::read);
      }
    }
  }
  if (written != nullptr) {
    device = device != nullptr ? device : written->device();
    for (auto* const block : written->blocks()) {
      if (block->immutable) {
        throw std::logic_error(
            text("operation '", NameScope::qualify(name), "' writes an immutable tensor"));
      }
      device = same_tracker(name, device, block->device->get());
      accesses.add(block->record, AccessMode::write);
    }
  }
  if (device == nullptr) {
    throw std::invalid_argument(text("operation '", name, "' names no tensor"));
  }
  device->context->home.require_here();
  auto const placement = device->context->placement.current();  // keeps the groups alive
  // The inputs of an h2d stream are written by the host, so they do not decide the group.
  auto& group = placement == nullptr
                    ? device->current_group()
                    : device->group_for(*placement, name, [&]() -> StreamGroup<R>* {
                        bool const has_inputs =
                            read != nullptr && options.stream != StreamKind::h2d;
                        return has_inputs ? writer_of(*placement, *device, *read) : nullptr;
                      });
  if constexpr (CapturingRuntime<R>) {
    if (group.captured()) [[unlikely]] {
      accesses = captured_accesses(*device, read, written);
    }
  }
  Observed<R> observed{};
  if constexpr (ObservingRuntime<R>) {
    observed = describe(name, group, *device, read, written, options, issued_at);
  }
  auto const observer = device->issue_observer.current();
  std::unique_lock<std::mutex> order;
  if (observer != nullptr) [[unlikely]] {
    InsideWork::refuse(name);  // refused in an operation's work, whose thread holds the lock
    order = std::unique_lock(observer->order());
  }
  auto const position = group.submit(name, options.stream, accesses, work, std::move(observed));
  if (observer != nullptr && !group.captured()) [[unlikely]] {
    observer->issued({name, group, options.stream, position, span_of(read), span_of(written)});
  }
  return position;
}

}  // namespace detail

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
/// operation follows. `name` must outlive the program's work: use a literal. Memory named here may
/// be released as soon as issue() returns. Thread-safe. Throws the exceptions of `work` (from a
/// launch thread: at a later call), and std::logic_error for a write to an immutable tensor.
/// `issued_at` is for the reports of a checking runtime.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::read> const& read,
                      detail::Uses<R, AccessMode::write> const& written,
                      Work&& work,
                      IssueOptions const& options = {},
                      std::source_location issued_at = std::source_location::current()) {
  return detail::issue<R>(name, &read, &written, std::forward<Work>(work), options, issued_at);
}
/// Issues an operation that reads no tensor.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::write> const& written,
                      Work&& work,
                      IssueOptions const& options = {},
                      std::source_location issued_at = std::source_location::current()) {
  return detail::issue<R>(name, nullptr, &written, std::forward<Work>(work), options, issued_at);
}
/// Issues an operation that writes no tensor.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::read> const& read,
                      Work&& work,
                      IssueOptions const& options = {},
                      std::source_location issued_at = std::source_location::current()) {
  return detail::issue<R>(name, &read, nullptr, std::forward<Work>(work), options, issued_at);
}

}  // namespace msstream
