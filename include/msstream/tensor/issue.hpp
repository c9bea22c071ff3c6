// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/inline_vector.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/stream/access.hpp>

#include <memory>
#include <ranges>
#include <stdexcept>
#include <utility>

namespace msstream {

/// Anything whose uses are tracked: a Tensor or a PinnedArray.
template <class T>
concept Tracked = requires(T const& tracked) {
  typename T::runtime_type;
  { tracked.block() } -> std::convertible_to<memory::BlockRef<typename T::runtime_type>>;
};

namespace detail {

/// The tensors that an operation reads, or writes.
template <Runtime R, AccessMode Mode>
class Uses {
 public:
  template <Tracked T>
  void add(T const& tracked) {
    blocks_.push_back(&*tracked.block());
  }
  template <std::ranges::range Tensors>
    requires Tracked<std::ranges::range_value_t<Tensors>>
  void add(Tensors const& tensors) {
    for (auto const& tensor : tensors) {
      add(tensor);
    }
  }
  [[nodiscard]] auto const& blocks() const noexcept { return blocks_; }

 private:
  InlineVector<memory::Block<R>*, 8> blocks_;
};

template <class T>
struct RuntimeOf {
  using type = typename T::runtime_type;
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

/// The tensors (or ranges of tensors) that an operation reads.
template <class... Tensors>
auto reads(Tensors const&... tensors) {
  return detail::uses<AccessMode::read>(tensors...);
}
/// The tensors (or ranges of tensors) that an operation writes; it may read them too.
template <class... Tensors>
auto writes(Tensors const&... tensors) {
  return detail::uses<AccessMode::write>(tensors...);
}

struct IssueOptions {
  StreamKind stream = StreamKind::compute;  ///< which of the group's streams
};

namespace detail {

/// The device of the block; positions of two trackers cannot be compared.
template <Runtime R>
DeviceState<R>* same_tracker(char const* name, DeviceState<R>* before, memory::Block<R>& block) {
  auto* const device = block.device.get();
  if (before != nullptr && before != device &&
      before->context->tracker != device->context->tracker) {
    throw std::invalid_argument(
        text("operation '",
             NameScope::qualify(name),
             "' names tensors of devices that do not share a tracker: see DeviceOptions::tracker"));
  }
  return device;
}

template <Runtime R, class Work>
order::Position issue(char const* name,
                      Uses<R, AccessMode::read> const* read,
                      Uses<R, AccessMode::write> const* written,
                      Work&& work,
                      IssueOptions const& options) {
  AccessSet accesses;
  DeviceState<R>* device = nullptr;
  if (read != nullptr) {
    for (auto* const block : read->blocks()) {
      device = same_tracker(name, device, *block);
      if (!block->immutable) {
        accesses.add(block->record, AccessMode::read);
      }
    }
  }
  if (written != nullptr) {
    for (auto* const block : written->blocks()) {
      if (block->immutable) {
        throw std::logic_error(
            text("operation '", NameScope::qualify(name), "' writes an immutable tensor"));
      }
      device = same_tracker(name, device, *block);
      accesses.add(block->record, AccessMode::write);
    }
  }
  if (device == nullptr) {
    throw std::invalid_argument(text("operation '", name, "' names no tensor"));
  }
  return device->current_group().submit(name, options.stream, accesses, std::forward<Work>(work));
}

}  // namespace detail

/// The one door through which work goes: `issue("scale", reads(x), writes(y), [=](auto stream) { …
/// });`
///
/// Puts the operation on the current scope's group, after everything that it must follow (its
/// inputs' last writes, its outputs' last writes and reads) and nothing else. Calls `work(stream)`
/// once, with a CudaStream, which is usable as a cudaStream_t, or a HostStream, whose run() takes
/// the work: on the calling thread, or on a launch thread if the pool has them. The host does not
/// block. `name` must outlive the program's work: use a literal. Memory named here may be let go as
/// soon as issue() returns. Thread-safe. Throws what `work` throws (from a launch thread: at a
/// later call), and std::logic_error for a write to an immutable tensor.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::read> const& read,
                      detail::Uses<R, AccessMode::write> const& written,
                      Work&& work,
                      IssueOptions const& options = {}) {
  return detail::issue<R>(name, &read, &written, std::forward<Work>(work), options);
}
/// An operation that reads nothing.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::write> const& written,
                      Work&& work,
                      IssueOptions const& options = {}) {
  return detail::issue<R>(name, nullptr, &written, std::forward<Work>(work), options);
}
/// An operation that writes no tensor.
template <Runtime R, class Work>
order::Position issue(char const* name,
                      detail::Uses<R, AccessMode::read> const& read,
                      Work&& work,
                      IssueOptions const& options = {}) {
  return detail::issue<R>(name, &read, nullptr, std::forward<Work>(work), options);
}

}  // namespace msstream
