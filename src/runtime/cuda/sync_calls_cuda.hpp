// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msstream::detail {

/// A call of the CUDA driver that may make the host, or streams other than its own, wait.
struct SyncCall {
  /// The stream that a null handle stands for, in calls of this name.
  enum class NullStream { legacy, per_thread };

  /// Returns why something waits for a call with these parameters, in the form in which CUPTI
  /// passes them; empty if nothing waits.
  [[nodiscard]] std::string_view complaint(void const* parameters) const {
    return judge(parameters, null_stream);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return judge != nullptr; }

  std::string_view (*judge)(void const* parameters, NullStream null_stream) = nullptr;
  NullStream null_stream = NullStream::legacy;
};

/// Finds a call by CUPTI's name for it, such as cuMemcpyHtoDAsync_v2_ptsz. The result converts to
/// false if nothing ever waits for calls of that name.
[[nodiscard]] SyncCall sync_call(std::string_view name);

}  // namespace msstream::detail
