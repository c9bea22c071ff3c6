// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

struct CUstream_st;
struct cublasLtContext;

namespace msstream {

namespace detail {

/// The queue from which a stream takes its work, on a runtime whose kernels run on the CPU.
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(WorkQueue const&) = delete;
  WorkQueue& operator=(WorkQueue const&) = delete;
  virtual ~WorkQueue() = default;

  /// Enqueues the closure, which runs after everything enqueued to the stream before. Does not
  /// block. Returns the closure's number on the stream, counted from 1.
  virtual std::uint64_t enqueue(Closure closure) = 0;
};

}  // namespace detail

/// The argument of a closure given to issue() on a runtime whose kernels run on the CPU: `run` puts
/// work on the stream.
class HostStream {
 public:
  explicit HostStream(detail::WorkQueue& queue) : queue_(&queue) {}

  /// Runs `function()` on the stream, after everything enqueued to the stream before. Does not
  /// block.
  template <class F>
  void run(F&& function) const {
    queue_->enqueue(Closure(std::forward<F>(function)));
  }

  [[nodiscard]] detail::WorkQueue& queue() const noexcept { return *queue_; }

 private:
  detail::WorkQueue* queue_;
};

/// The precision of float32 matrix products. `tf32` computes them on the tensor cores, with factors
/// rounded to 10 bits of mantissa and float32 sums: several times faster, with errors around 1e-3
/// of the terms. A backend without tf32 computes in float32.
enum class MatmulPrecision : std::uint8_t { float32, tf32 };

/// The options for creating a stream group's library handles.
struct LibraryOptions {
  std::size_t workspace_bytes = std::size_t{4} << 20U;          ///< of cuBLASLt, in device memory
  MatmulPrecision matmul_precision = MatmulPrecision::float32;  ///< of float32 products
  bool tune_products = false;  ///< whether to measure algorithms of products
};

/// The argument of a closure given to issue() on the CUDA runtime. Converts to `cudaStream_t`.
struct CudaStream {
  /// The library handles of a stream group. Used by work that runs one after the other, on one
  /// stream or in graphs, so that no two pieces of work use the workspace at once. Two host threads
  /// may use the handles at once, while one of them captures.
  struct Libraries {
    int ordinal;                  ///< the number of the device of the handles
    cublasLtContext* blas;        ///< the handle of cuBLASLt
    void* workspace;              ///< device memory for products
    std::size_t workspace_bytes;  ///< the size of `workspace`
    MatmulPrecision precision;    ///< of float32 products
    bool tunes_products;          ///< whether algorithms of products are measured
  };

  CUstream_st* handle;   ///< the cudaStream_t
  Libraries* libraries;  ///< those of the stream's group

  /// Returns the handle, so that a CudaStream can be passed to CUDA.
  operator CUstream_st*() const noexcept { return handle; }  // NOLINT(google-explicit-constructor)
};

}  // namespace msstream
