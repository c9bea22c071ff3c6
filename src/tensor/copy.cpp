// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/device/synchronize_uses.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/any_issue.hpp>
#include <msstream/tensor/detail/overlap.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <stdexcept>

namespace msstream::detail {
namespace {

/// Copies bytes on the group's stream for the direction of the copy (h2d, d2h or compute), ordered
/// like any operation.
template <class To, class From>
void issue_copy(char const* name,
                To const& to,
                From const& from,
                std::size_t bytes,
                CopyKind kind,
                std::source_location issued_at) {
  StreamKind const stream = kind == CopyKind::h2d   ? StreamKind::h2d
                            : kind == CopyKind::d2h ? StreamKind::d2h
                                                    : StreamKind::compute;
  auto* const runtime = to.device()->context->runtime.get();
  AnyUses read(AccessMode::read);
  AnyUses written(AccessMode::write);
  read.add(*from.block(), from.data(), from.bytes());
  written.add(*to.block(), to.data(), to.bytes());
  issue_any(name,
            &read,
            &written,
            WorkRef::native([runtime, kind, bytes, target = to.data(), source = from.data()](
                                NativeStream native) {
              if (bytes != 0) {
                runtime->copy(target, source, bytes, kind, native);
              }
            }),
            {.stream = stream},
            issued_at);
}

/// Throws std::logic_error inside a capture: each replay could only copy the elements of the time
/// of capture again, because the host vector may not exist any more.
void refuse_upload_in_capture(DeviceState const& device, char const* call) {
  if (OpenCapture::current(*device.context) != nullptr) [[unlikely]] {
    auto const place = InsideWork::place();
    throw std::logic_error(fmt::format(
        "{}{} inside a capture: each replay would copy the elements of now; make the tensor before "
        "the capture, or copy() from a PinnedArray that is kept and written before each replay",
        call,
        place.empty() ? "" : fmt::format(" in '{}'", place)));
  }
}

}  // namespace

void copy_to_device(AnyTensor const& to,
                    AnyPinnedArray const& from,
                    std::source_location issued_at) {
  require(static_cast<std::size_t>(to.count()) <= from.count(),
          "copy to the device: {} elements wanted, {} given",
          to.count(),
          from.count());
  issue_copy("copy_h2d", to, from, to.bytes(), CopyKind::h2d, issued_at);
  if (auto* const capture = OpenCapture::current(*to.device()->context)) [[unlikely]] {
    capture->copies_from_host(*from.block());
  }
}

void copy_to_host(AnyPinnedArray const& to, AnyTensor const& from, std::source_location issued_at) {
  require(static_cast<std::size_t>(from.count()) <= to.count(),
          "copy to the host: {} elements into {}",
          from.count(),
          to.count());
  issue_copy("copy_d2h", to, from, from.bytes(), CopyKind::d2h, issued_at);
}

void copy_on_device(AnyTensor const& to, AnyTensor const& from, std::source_location issued_at) {
  require(to.count() == from.count(),
          "copy of a tensor of shape {} to one of shape {}",
          from.shape(),
          to.shape());
  bool const is_same = is_same_memory(to, from);
  if (!is_same) {
    require_no_overlap("copy", to, from);
  }
  issue_copy("copy_d2d", to, from, is_same ? 0 : from.bytes(), CopyKind::d2d, issued_at);
}

void fill_any(AnyTensor const& tensor, std::uint8_t value, std::source_location issued_at) {
  auto* const runtime = tensor.device()->context->runtime.get();
  auto const written = any_writes(tensor);
  issue_any("fill",
            nullptr,
            &written,
            WorkRef::native([runtime, value, memory = tensor.data(), bytes = tensor.bytes()](
                                NativeStream native) {
              if (bytes != 0) {
                runtime->fill(memory, value, bytes, native);
              }
            }),
            {},
            issued_at);
}

AnyTensor upload(std::shared_ptr<DeviceState> const& device,
                 DType dtype,
                 void const* elements,
                 std::size_t count,
                 Shape const& shape,
                 std::source_location issued_at) {
  require(static_cast<std::int64_t>(count) == shape.count(),
          "to_device: {} elements for a shape of {}",
          count,
          shape);
  refuse_upload_in_capture(*device, "to_device");
  AnyPinnedArray const staged(device, count, bytes_of(dtype));
  staged.host_uses(AccessMode::write);
  if (count != 0) {
    std::memcpy(staged.data(), elements, staged.bytes());
  }
  AnyTensor tensor(device, dtype, shape, StreamKind::h2d);
  copy_to_device(tensor, staged, issued_at);
  return tensor;
}

AnyPinnedArray download(AnyTensor const& tensor, std::source_location issued_at) {
  InsideWork::refuse_wait("to_host");
  // Waits for the reads too: otherwise a race would decide whether a failure of a read is reported.
  auto const uses = uses_to_await(*tensor.block(), AccessMode::write, "to_host");
  AnyPinnedArray staged(
      tensor.device(), static_cast<std::size_t>(tensor.count()), bytes_of(tensor.dtype()));
  copy_to_host(staged, tensor, issued_at);
  staged.wait("to_host");
  for (auto const& use : uses) {  // for the reads; the copy waited for the writes
    tensor.device()->context->tracker->synchronize(use);
  }
  staged.host_uses(AccessMode::read);
  return staged;
}

}  // namespace msstream::detail
