// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_CUDA

#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/sync_watch.hpp>

#include <memory>

namespace msstream {

/// Sees the calls into CUDA of everybody in the process through CUPTI's callbacks, and tells the
/// checker of those that synchronise implicitly: cudaDeviceSynchronize, taking and giving back
/// memory, copies and sets that block or touch pageable memory, work on the legacy default stream.
///
/// libcupti is looked for when the first watch is made. Without it, or when another tool has it (it
/// serves one at a time), nothing is seen, and a line on stderr says so.
template <>
class SyncWatch<Cuda> {
 public:
  explicit SyncWatch(std::shared_ptr<Checker> checker);
  ~SyncWatch();
  SyncWatch(SyncWatch const&) = delete;
  SyncWatch& operator=(SyncWatch const&) = delete;

  /// Whether CUPTI shows the process's calls.
  [[nodiscard]] static bool sees_calls() noexcept;

 private:
  std::shared_ptr<Checker> checker_;
};

}  // namespace msstream

#endif
