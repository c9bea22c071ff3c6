// SPDX-License-Identifier: Apache-2.0
// Handles of cuBLASLt. They are in a separate file, so that programs that create none need not link
// cuBLASLt.
#include <msstream/base/error.hpp>
#include <msstream/runtime/cuda.hpp>

#include <cublasLt.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace msstream {
namespace {

/// The cuBLASLt handles that no stream group uses at present, for each device. They are reused by
/// later groups. Thread-safe.
///
/// No handle is ever destroyed: cublasLtDestroy waits for the whole device, which stalls all
/// streams and ends the captures of all threads. A process therefore keeps as many handles as it
/// has ever had groups at one time.
class FreeHandles {
 public:
  /// Returns the free handles of the process. They are never destroyed.
  static FreeHandles& of_process() {
    static auto* const handles = new FreeHandles;
    return *handles;
  }

  /// Removes and returns a free handle, or creates one if none is free. The current device must be
  /// `ordinal`.
  [[nodiscard]] cublasLtHandle_t take(int ordinal) {
    {
      std::lock_guard const guard(mutex_);
      auto& free = free_[ordinal];
      if (!free.empty()) {
        auto* const handle = free.back();
        free.pop_back();
        return handle;
      }
    }
    cublasLtHandle_t handle = nullptr;
    cublasStatus_t const status = cublasLtCreate(&handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw RuntimeError("cuBLASLt", status, cublasLtGetStatusString(status), "cublasLtCreate");
    }
    return handle;
  }
  void give_back(int ordinal, cublasLtHandle_t handle) noexcept {
    try {
      std::lock_guard const guard(mutex_);
      free_[ordinal].push_back(handle);
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to store it, so it is leaked
    }
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<cublasLtHandle_t>> free_;
};

}  // namespace

Cuda::native_libraries Cuda::create_libraries(LibraryOptions const& options) {
  make_current();
  auto libraries = std::make_unique<CudaStream::Libraries>();
  auto* const blas = FreeHandles::of_process().take(ordinal_);
  libraries->ordinal = ordinal_;
  libraries->blas = blas;
  libraries->workspace_bytes = options.workspace_bytes;
  libraries->precision = options.matmul_precision;
  libraries->tunes_products = options.tune_products;
  try {
    libraries->workspace = allocate_device(options.workspace_bytes);
  } catch (...) {
    FreeHandles::of_process().give_back(ordinal_, blas);
    throw;
  }
  return libraries.release();
}

void Cuda::destroy_libraries(native_libraries libraries) noexcept {
  if (home_.is_left()) {
    return;
  }
  FreeHandles::of_process().give_back(ordinal_, libraries->blas);
  free_device(libraries->workspace, libraries->workspace_bytes);
  delete libraries;
}

}  // namespace msstream
