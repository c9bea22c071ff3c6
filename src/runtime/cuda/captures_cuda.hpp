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

/// The host functions that a CUDA graph calls, which must live as long as the graph.
using CapturedCalls = std::vector<std::unique_ptr<HostCall>>;

struct CudaGraph {
  CudaGraph() = default;
  CudaGraph(CudaGraph const&) = delete;
  CudaGraph& operator=(CudaGraph const&) = delete;
  ~CudaGraph() {
    if (executable != nullptr) {
      cudaGraphExecDestroy(executable);
    }
    if (uploaded != nullptr) {
      cudaEventDestroy(uploaded);
    }
  }

  cudaGraphExec_t executable = nullptr;
  /// Recorded on the stream of the upload. Launches on other streams must follow the event, because
  /// CUDA orders uploads after launches, but no launch after an upload.
  cudaEvent_t uploaded = nullptr;
  std::atomic<bool> is_uploaded{false};  ///< true once the event need not be queried again
  CapturedCalls calls;
};

/// The captures in progress, by CUDA's id of the capture. Thread-safe.
class CudaCaptures {
 public:
  void begin(cudaStream_t origin);
  /// Ends the capture that began on the stream, and returns the calls kept for it.
  [[nodiscard]] CapturedCalls end(cudaStream_t origin) noexcept;
  /// Returns whether any capture is in progress. Costs one load.
  [[nodiscard]] bool go_on() const noexcept { return count_.load() != 0; }
  /// Takes the call if the stream is part of one of the captures; otherwise returns null. Costs one
  /// load if no capture is in progress.
  [[nodiscard]] HostCall* keep_if_captured(cudaStream_t stream, std::unique_ptr<HostCall>& call);

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
