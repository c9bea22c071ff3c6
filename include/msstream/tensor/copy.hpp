// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/pinned_array.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <numeric>
#include <source_location>
#include <span>
#include <vector>

namespace msstream {

/// Copies the first to.count() elements of `from` to the device on the group's h2d stream. The host
/// does not block, and must not write `from` before from.wait(). In a capture, each replay copies
/// the elements that `from` has at the replay; the capture, or a replay, fails with
/// std::logic_error if no handle of `from` is left. Throws std::invalid_argument if `from` is too
/// short.
template <Element T, Runtime R>
void copy(Tensor<T, R> const& to,
          PinnedArray<T, R> const& from,
          std::source_location issued_at = std::source_location::current()) {
  detail::copy_to_device(to.any(), from.any(), issued_at);
}

/// Copies all of `from` to the host on the group's d2h stream. The host does not block; call
/// to.wait() to wait for the copy.
template <Element T, Runtime R>
void copy(PinnedArray<T, R> const& to,
          Tensor<T, R> const& from,
          std::source_location issued_at = std::source_location::current()) {
  detail::copy_to_host(to.any(), from.any(), issued_at);
}

/// Copies all elements of `from` to `to`, on the group's compute stream. Copies nothing if both
/// have the same memory. Throws std::invalid_argument if the counts differ, and for tensors that
/// share only some of their elements, such as overlapping rows of one tensor.
template <Element T, Runtime R>
void copy(Tensor<T, R> const& to,
          Tensor<T, R> const& from,
          std::source_location issued_at = std::source_location::current()) {
  detail::copy_on_device(to.any(), from.any(), issued_at);
}

/// Uploads elements to a new tensor, through pinned memory. The host does not wait for the device.
/// Throws std::logic_error in a capture, whose replays would all copy the elements that were given
/// at capture.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> to_device(
    Device<R> const& device,
    std::span<T const> elements,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  return {detail::OfKnownType(),
          detail::upload(
              device.state(), dtype_of<T>, elements.data(), elements.size(), shape, issued_at)};
}
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> to_device(
    Device<R> const& device,
    std::vector<T> const& elements,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  return to_device<T, R>(device, std::span<T const>(elements), shape, issued_at);
}

/// Downloads a tensor, and returns its elements. Blocks the host until the copy, and all work
/// issued on the tensor before, are complete. Rethrows failures of the work, and errors that the
/// device has reported meanwhile.
template <Element T, Runtime R>
[[nodiscard]] std::vector<T> to_host(
    Tensor<T, R> const& tensor, std::source_location issued_at = std::source_location::current()) {
  auto const staged = detail::download(tensor.any(), issued_at);
  auto const* const elements = static_cast<T const*>(staged.data());
  return {elements, elements + staged.count()};
}

/// Makes a tensor [count] with the elements 0, 1, …, count - 1.
template <Runtime R>
[[nodiscard]] Tensor<std::int64_t, R> arange(
    Device<R> const& device,
    std::int64_t count,
    std::source_location issued_at = std::source_location::current()) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(count));
  std::iota(elements.begin(), elements.end(), 0);
  return to_device(device, elements, {count}, issued_at);
}

/// Sets every byte of the tensor to `value`, on the group's compute stream.
template <Element T, Runtime R>
void fill_bytes(Tensor<T, R> const& tensor,
                std::uint8_t value,
                std::source_location issued_at = std::source_location::current()) {
  detail::fill_any(tensor.any(), value, issued_at);
}

/// Makes a tensor whose elements are zeros.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> zeros(Device<R> const& device,
                                 Shape const& shape,
                                 std::source_location issued_at = std::source_location::current()) {
  Tensor<T, R> tensor(device, shape);
  fill_bytes(tensor, 0, issued_at);
  return tensor;
}

}  // namespace msstream
