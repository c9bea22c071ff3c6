// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/overlap.hpp>
#include <msstream/tensor/pinned_array.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <stdexcept>
#include <vector>

namespace msstream {

namespace detail {

/// Copies on the stream of the group that is for this kind of copy, ordered like any operation.
template <Runtime R, class To, class From>
void issue_copy(char const* name,
                To const& to,
                From const& from,
                std::size_t bytes,
                CopyKind kind,
                std::source_location issued_at) {
  StreamKind const stream = kind == CopyKind::h2d   ? StreamKind::h2d
                            : kind == CopyKind::d2h ? StreamKind::d2h
                                                    : StreamKind::compute;
  auto& state = *to.device();
  auto* const runtime = state.context->runtime.get();
  void* const target = to.data();
  void const* const source = from.data();
  issue(name,
        reads(from),
        writes(to),
        NativeWork{[=](typename R::native_stream native) {
          if (bytes != 0) {
            runtime->copy(target, source, bytes, kind, native);
          }
        }},
        {.stream = stream},
        issued_at);
}

/// Throws std::logic_error in a capture, whose replays could only copy the elements of the capture
/// again: the vector that held them may not exist any more.
template <Runtime R>
void refuse_upload_in_capture(Device<R> const& device, char const* call) {
  if constexpr (CapturingRuntime<R>) {
    if (memory::Capture<R>::current(*device.context()) != nullptr) [[unlikely]] {
      auto const place = InsideWork::place();
      throw std::logic_error(
          text(call,
               place.empty() ? "" : text(" in '", place, "'"),
               " inside a capture: each replay would copy the elements of now; make the tensor "
               "before the capture, or copy() from a PinnedArray that is kept and written before "
               "each replay"));
    }
  }
}

}  // namespace detail

/// Copies the first to.count() elements of `from` to the device on the group's h2d stream. The host
/// does not block; it must not write `from` before from.wait(). In a capture, each replay copies
/// the elements that `from` has at the replay; the capture, or a replay, fails with
/// std::logic_error if no handle of `from` is left. Throws std::invalid_argument if `from` is too
/// short.
template <Element T, Runtime R>
void copy(Tensor<T, R> const& to,
          PinnedArray<T, R> const& from,
          std::source_location issued_at = std::source_location::current()) {
  require(static_cast<std::size_t>(to.count()) <= from.count(),
          "copy to the device: ",
          to.count(),
          " elements wanted, ",
          from.count(),
          " given");
  detail::issue_copy<R>("copy_h2d", to, from, to.bytes(), CopyKind::h2d, issued_at);
  if constexpr (CapturingRuntime<R>) {
    if (auto* const capture = memory::Capture<R>::current(*to.device()->context)) [[unlikely]] {
      capture->copies_from_host(*from.block());
    }
  }
}

/// Copies all of `from` to the host on the group's d2h stream. The host does not block; call
/// to.wait() to wait for the copy.
template <Element T, Runtime R>
void copy(PinnedArray<T, R> const& to,
          Tensor<T, R> const& from,
          std::source_location issued_at = std::source_location::current()) {
  require(static_cast<std::size_t>(from.count()) <= to.count(),
          "copy to the host: ",
          from.count(),
          " elements into ",
          to.count());
  detail::issue_copy<R>("copy_d2h", to, from, from.bytes(), CopyKind::d2h, issued_at);
}

/// Copies between tensors of the same count on the group's compute stream. Copies nothing if both
/// have the same memory. Throws std::invalid_argument for different counts, and for tensors that
/// share only some of their elements, such as overlapping rows of one tensor.
template <Element T, Runtime R>
void copy(Tensor<T, R> const& to,
          Tensor<T, R> const& from,
          std::source_location issued_at = std::source_location::current()) {
  require(to.count() == from.count(),
          "copy of a tensor of shape ",
          from.shape(),
          " to one of shape ",
          to.shape());
  bool const is_same = detail::is_same_memory(to, from);
  if (!is_same) {
    detail::require_no_overlap("copy", to, from);
  }
  detail::issue_copy<R>("copy_d2d", to, from, is_same ? 0 : from.bytes(), CopyKind::d2d, issued_at);
}

/// Returns a tensor with the given elements, staged through pinned memory. The host does not wait
/// for the device. Throws std::logic_error in a capture, whose replays would copy the same
/// elements.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> to_device(
    Device<R> const& device,
    std::span<T const> elements,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  require(static_cast<std::int64_t>(elements.size()) == shape.count(),
          "to_device: ",
          elements.size(),
          " elements for a shape of ",
          shape);
  detail::refuse_upload_in_capture(device, "to_device");
  PinnedArray<T, R> staged(device, elements.size());
  std::copy(elements.begin(), elements.end(), staged.elements().begin());
  Tensor<T, R> tensor(device, shape, StreamKind::h2d);
  copy(tensor, staged, issued_at);
  return tensor;
}
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> to_device(
    Device<R> const& device,
    std::vector<T> const& elements,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  return to_device<T, R>(device, std::span<T const>(elements), shape, issued_at);
}

/// Returns the elements on the host. Blocks the host until the copy, and all work issued on the
/// tensor before it, are complete. Rethrows failures of that work, and errors that the device has
/// reported meanwhile.
template <Element T, Runtime R>
[[nodiscard]] std::vector<T> to_host(
    Tensor<T, R> const& tensor, std::source_location issued_at = std::source_location::current()) {
  InsideWork::refuse_wait("to_host");
  // Includes the reads: otherwise a race would decide whether their failure is reported.
  auto const uses = uses_to_await(*tensor.block(), AccessMode::write, "to_host");
  PinnedArray<T, R> staged(tensor.device(), static_cast<std::size_t>(tensor.count()));
  copy(staged, tensor, issued_at);
  staged.wait("to_host");
  for (auto const& use : uses) {  // the writes are complete now, and known to be
    tensor.device()->context->tracker->synchronize(use);
  }
  auto const elements = staged.const_elements();
  return {elements.begin(), elements.end()};
}

/// Sets every byte of the tensor to `value`, on the group's compute stream.
template <Element T, Runtime R>
void fill_bytes(Tensor<T, R> const& tensor,
                std::uint8_t value,
                std::source_location issued_at = std::source_location::current()) {
  auto& state = *tensor.device();
  auto* const runtime = state.context->runtime.get();
  issue("fill",
        writes(tensor),
        NativeWork{[runtime, value, memory = tensor.data(), bytes = tensor.bytes()](
                       typename R::native_stream native) {
          if (bytes != 0) {
            runtime->fill(memory, value, bytes, native);
          }
        }},
        {},
        issued_at);
}

/// Returns a tensor of zeros.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> zeros(Device<R> const& device,
                                 Shape const& shape,
                                 std::source_location issued_at = std::source_location::current()) {
  Tensor<T, R> tensor(device, shape);
  fill_bytes(tensor, 0, issued_at);
  return tensor;
}

}  // namespace msstream
