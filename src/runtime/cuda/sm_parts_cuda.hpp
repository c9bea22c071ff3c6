// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/partitioning.hpp>

#include <cuda.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The driver's functions for green contexts, which the runtime API of CUDA 13.0 lacks.
struct GreenContextCalls {
  decltype(&cuDeviceGetDevResource) get_resource;
  decltype(&cuDevSmResourceSplitByCount) split;
  decltype(&cuDevResourceGenerateDesc) describe;
  decltype(&cuGreenCtxCreate) create;
  decltype(&cuGreenCtxDestroy) destroy;
  /// cuGreenCtxStreamCreate(), which the headers of CUDA 12.4 lack.
  CUresult(CUDAAPI* create_stream)(CUstream*, CUgreenCtx, unsigned flags, int level);
  decltype(&cuGetErrorString) error_string;
};

/// The groups of multiprocessors into which one device is partitioned, as green contexts. They are
/// created when the first stream on them is created, and are kept: no stream on them may outlive
/// this object. Thread-safe.
class CudaSmParts {
 public:
  explicit CudaSmParts(int ordinal);
  CudaSmParts(CudaSmParts const&) = delete;
  CudaSmParts& operator=(CudaSmParts const&) = delete;
  ~CudaSmParts();

  /// Returns the maximum number of parts into which the multiprocessors can be split; 1 if the
  /// device or its driver does not support partitions.
  [[nodiscard]] int most() const noexcept { return most_; }
  /// Creates a stream that runs on one part of the multiprocessors. `level` is a priority in CUDA's
  /// range.
  [[nodiscard]] CUstream create_stream(SmPartition partition, int level);

 private:
  void check(CUresult code, char const* call) const;
  [[nodiscard]] CUdevResource all() const;
  /// Splits the multiprocessors into `parts` equal ones, as large as can be if `spared` remain.
  /// Empty if they are too few.
  [[nodiscard]] std::vector<CUdevResource> split(unsigned parts, unsigned spared) const;
  [[nodiscard]] std::vector<CUgreenCtx> make(SmPartition partition) const;

  int ordinal_;
  GreenContextCalls calls_{};
  int most_ = 1;
  std::mutex mutex_;
  /// The contexts for each number of parts and of spared multiprocessors.
  std::map<std::pair<int, int>, std::vector<CUgreenCtx>> contexts_;
};

}  // namespace msstream::detail
