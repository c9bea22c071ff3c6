// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msstream::detail {

/// Describes a function of the CUDA driver that may make the host, or streams other than its own,
/// wait.
struct SyncCall {
  /// The default stream that a null handle denotes in this function.
  enum class NullStream { legacy, per_thread };

  /// Returns a message that says what waits for a call with these parameters, which have CUPTI's
  /// layout. Returns an empty string if nothing waits.
  [[nodiscard]] std::string_view complaint(void const* parameters) const {
    return judge(parameters, null_stream);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return judge != nullptr; }

  std::string_view (*judge)(void const* parameters, NullStream null_stream) = nullptr;
  NullStream null_stream = NullStream::legacy;
};

/// Returns the description of a driver function by CUPTI's name for it, such as
/// cuMemcpyHtoDAsync_v2_ptsz. The result converts to false if calls of that function never make
/// anything wait.
[[nodiscard]] SyncCall sync_call(std::string_view name);

}  // namespace msstream::detail
