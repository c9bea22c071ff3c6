// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_call_cuda.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace msstream::detail {

/// The host functions that a CUDA graph calls. They must live as long as the graph.
using CapturedCalls = std::vector<std::unique_ptr<HostFunction>>;

struct CudaGraph {
  CudaGraph() = default;
  CudaGraph(CudaGraph const&) = delete;
  CudaGraph& operator=(CudaGraph const&) = delete;
  ~CudaGraph() {
    if (executable != nullptr) {
      cudaGraphExecDestroy(executable);
    }
  }

  cudaGraphExec_t executable = nullptr;
  CapturedCalls calls;
};

/// The captures in progress on a device, identified by CUDA's capture ids. Thread-safe.
class CudaCaptures {
 public:
  void begin(cudaStream_t origin);
  /// Removes the capture that began on the stream `origin`, and returns the host functions stored
  /// for it.
  [[nodiscard]] CapturedCalls end(cudaStream_t origin) noexcept;
  /// Returns whether any capture is in progress. Costs one load.
  [[nodiscard]] bool go_on() const noexcept { return count_.load() != 0; }
  /// Stores the host function `call` with the capture that the stream is part of, and returns its
  /// address. Returns null, and leaves `call` to the caller, if the stream is not being captured.
  /// Costs one load if no capture is in progress.
  [[nodiscard]] HostFunction* keep_if_captured(cudaStream_t stream,
                                               std::unique_ptr<HostFunction>& call);

 private:
  using Id = unsigned long long;
  struct Capture {
    cudaStream_t origin;
    CapturedCalls calls;
  };

  std::atomic<std::size_t> count_{0};
  std::mutex mutex_;
  std::map<Id, Capture> captures_;
};

}  // namespace msstream::detail
