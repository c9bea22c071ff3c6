// SPDX-License-Identifier: Apache-2.0
// Apart from the rest of the runtime: who creates no handles links no cuBLASLt.
#include <msstream/base/error.hpp>
#include <msstream/runtime/cuda.hpp>

#include <cublasLt.h>

#include <memory>

namespace msstream {

Cuda::native_libraries Cuda::create_libraries(LibraryOptions const& options) {
  make_current();
  auto libraries = std::make_unique<CudaLibraries>();
  cublasLtHandle_t blas = nullptr;
  cublasStatus_t const status = cublasLtCreate(&blas);
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw RuntimeError("cuBLASLt", status, cublasLtGetStatusString(status), "cublasLtCreate");
  }
  libraries->ordinal = ordinal_;
  libraries->blas = blas;
  libraries->workspace_bytes = options.workspace_bytes;
  libraries->precision = options.matmul_precision;
  try {
    libraries->workspace = allocate_device(options.workspace_bytes);
  } catch (...) {
    cublasLtDestroy(blas);
    throw;
  }
  return libraries.release();
}

void Cuda::destroy_libraries(native_libraries libraries) noexcept {
  if (home_.is_left()) {
    return;
  }
  cublasLtDestroy(libraries->blas);
  free_device(libraries->workspace, libraries->workspace_bytes);
  delete libraries;
}

}  // namespace msstream
