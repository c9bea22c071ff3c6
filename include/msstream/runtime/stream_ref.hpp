// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/library_options.hpp>
#include <msstream/runtime/work_queue.hpp>

#include <cstddef>
#include <utility>

struct CUstream_st;
struct cublasLtContext;

namespace msstream {

/// The argument of a closure given to issue() on a runtime whose kernels run on the CPU: `run` puts
/// work on the stream.
class HostStream {
 public:
  explicit HostStream(WorkQueue& queue) : queue_(&queue) {}

  /// Runs `function()` on the stream, after everything enqueued to the stream before. Does not
  /// block.
  template <class F>
  void run(F&& function) const {
    queue_->enqueue(Closure(std::forward<F>(function)));
  }

  [[nodiscard]] WorkQueue& queue() const noexcept { return *queue_; }

 private:
  WorkQueue* queue_;
};

/// The library handles of a stream group. Used by work that runs one after the other, on one stream
/// or in graphs, so that no two pieces of work use the workspace at once. Two host threads may use
/// the handles at once, while one of them captures.
struct CudaLibraries {
  int ordinal;  ///< the number of the device of the handles
  cublasLtContext* blas;
  void* workspace;
  std::size_t workspace_bytes;
  MatmulPrecision precision;
};

/// The argument of a closure given to issue() on the CUDA runtime. Can be passed wherever a
/// `cudaStream_t` is expected.
struct CudaStream {
  CUstream_st* handle;
  CudaLibraries* libraries;

  operator CUstream_st*() const noexcept { return handle; }  // NOLINT(google-explicit-constructor)
};

}  // namespace msstream
