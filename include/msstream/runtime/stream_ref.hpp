// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/library_options.hpp>
#include <msstream/runtime/work_queue.hpp>

#include <cstddef>
#include <utility>

struct CUstream_st;
struct cublasLtContext;

namespace msstream {

/// What the closure given to issue() receives on a runtime whose kernels run on the CPU: `run` puts
/// work on the stream.
class HostStream {
 public:
  explicit HostStream(WorkQueue& queue) : queue_(&queue) {}

  /// Runs `function()` on the stream, after everything that the stream got before. Does not block.
  template <class F>
  void run(F&& function) const {
    queue_->enqueue(Closure(std::forward<F>(function)));
  }

  [[nodiscard]] WorkQueue& queue() const noexcept { return *queue_; }

 private:
  WorkQueue* queue_;
};

/// The library handles of a stream group: used by work that comes one after the other, of one
/// stream or of graphs, so that no two things use a workspace at once. The handles may be used by
/// two host threads at once, while one captures.
struct CudaLibraries {
  int ordinal;  ///< of the device that they are for
  cublasLtContext* blas;
  void* workspace;
  std::size_t workspace_bytes;
  MatmulPrecision precision;
};

/// What the closure given to issue() receives on the CUDA runtime; use it wherever a `cudaStream_t`
/// is expected.
struct CudaStream {
  CUstream_st* handle;
  CudaLibraries* libraries;

  operator CUstream_st*() const noexcept { return handle; }  // NOLINT(google-explicit-constructor)
};

}  // namespace msstream
