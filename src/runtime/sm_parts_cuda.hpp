// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/partitioning.hpp>

#include <cuda.h>

#include <map>
#include <mutex>
#include <vector>

namespace msstream::detail {

/// The driver's green contexts, which the runtime API of CUDA 13.0 lacks.
struct GreenContextCalls {
  decltype(&cuDeviceGetDevResource) get_resource;
  decltype(&cuDevSmResourceSplitByCount) split;
  decltype(&cuDevResourceGenerateDesc) describe;
  decltype(&cuGreenCtxCreate) create;
  decltype(&cuGreenCtxDestroy) destroy;
  decltype(&cuGreenCtxStreamCreate) create_stream;
  decltype(&cuGetErrorString) error_string;
};

/// The parts of one device, made when a stream first asks for them, and kept: a stream must not
/// outlive this. Thread-safe.
class CudaSmParts {
 public:
  explicit CudaSmParts(int ordinal);
  CudaSmParts(CudaSmParts const&) = delete;
  CudaSmParts& operator=(CudaSmParts const&) = delete;
  ~CudaSmParts();

  /// 1: the device or its driver cannot do it.
  [[nodiscard]] int most() const noexcept { return most_; }
  /// `level`: a priority as CUDA counts them.
  [[nodiscard]] CUstream create_stream(SmPartition partition, int level);

 private:
  void check(CUresult code, char const* call) const;
  [[nodiscard]] CUdevResource all() const;
  [[nodiscard]] unsigned parts_of(unsigned multiprocessors) const;
  [[nodiscard]] std::vector<CUgreenCtx> make(int parts) const;

  int ordinal_;
  GreenContextCalls calls_{};
  int most_ = 1;
  std::mutex mutex_;
  std::map<int, std::vector<CUgreenCtx>> contexts_;  ///< by the number of parts
};

}  // namespace msstream::detail
