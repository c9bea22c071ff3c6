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

/// What CUDA's graph calls on the host, which must stay as long as the graph.
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
  /// On the stream of the upload, which launches on other streams must follow: CUDA orders uploads
  /// behind launches, and no launch behind an upload.
  cudaEvent_t uploaded = nullptr;
  std::atomic<bool> is_uploaded{false};  ///< the event need not be asked again
  CapturedCalls calls;
};

/// The captures that are going on, by CUDA's id. Thread-safe.
class CudaCaptures {
 public:
  void begin(cudaStream_t origin);
  /// What was kept for the capture that began on the stream.
  [[nodiscard]] CapturedCalls end(cudaStream_t origin) noexcept;
  /// Whether there are any. Costs a load.
  [[nodiscard]] bool go_on() const noexcept { return count_.load() != 0; }
  /// Takes the call if the stream is part of one of the captures; else null. Costs a load when
  /// there are none.
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
