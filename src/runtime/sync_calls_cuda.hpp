// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msstream::detail {

/// A call of the CUDA driver that may make the host, or streams besides its own, wait.
struct SyncCall {
  /// What a null stream stands for in calls of this name.
  enum class NullStream { legacy, per_thread };

  /// Why something waits for a call with these parameters, as CUPTI passes them; empty: nothing
  /// does.
  [[nodiscard]] std::string_view complaint(void const* parameters) const {
    return judge(parameters, null_stream);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return judge != nullptr; }

  std::string_view (*judge)(void const* parameters, NullStream null_stream) = nullptr;
  NullStream null_stream = NullStream::legacy;
};

/// By CUPTI's name of the call, such as cuMemcpyHtoDAsync_v2_ptsz. False if nothing ever waits for
/// calls of that name.
[[nodiscard]] SyncCall sync_call(std::string_view name);

}  // namespace msstream::detail
