// SPDX-License-Identifier: Apache-2.0
#include "fake_cublaslt.hpp"

#include "fake_call.hpp"

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

/// Fake versions of the cuBLASLt functions that the library calls. Every matrix product is
/// supported; it is counted and not computed.

using fake_cuda::call;
using fake_cuda::FakeDevice;

namespace {

template <class Body>
cublasStatus_t blas_call(char const* name, Body&& body) {
  auto const error_of_the_runtime = fake_cuda::last_error;
  auto const code = call(name, body);
  fake_cuda::last_error = error_of_the_runtime;
  return code == cudaSuccess              ? CUBLAS_STATUS_SUCCESS
         : code == cudaErrorLaunchFailure ? CUBLAS_STATUS_EXECUTION_FAILED
                                          : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t accept(char const* name) {
  return blas_call(name, [](FakeDevice&) { return cudaSuccess; });
}

cudaError_t check_handle(FakeDevice& device, cublasLtHandle_t handle) {
  if (!device.blas_handles.contains(handle)) {
    return device.misuse("uses a cuBLASLt handle that is not there", cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

/// The most workspace that the thread's latest preference allows.
thread_local std::uint64_t allowed_workspace = 0;

}  // namespace

char const* cublasLtGetStatusString(cublasStatus_t) {
  return "a status of the fake cuBLASLt";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return blas_call("cublasLtCreate", [&](FakeDevice& device) {
    *handle = static_cast<cublasLtHandle_t>(device.new_handle());
    device.blas_handles.insert(*handle);
    return cudaSuccess;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return blas_call("cublasLtDestroy", [&](FakeDevice& device) {
    auto const code = check_handle(device, handle);
    device.blas_handles.erase(handle);
    return code;
  });
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t,
                                               std::size_t,
                                               cublasComputeType_t,
                                               cudaDataType_t) {
  return accept("cublasLtMatmulDescInit");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t,
                                              cublasLtMatmulDescAttributes_t,
                                              void const*,
                                              std::size_t) {
  return accept("cublasLtMatmulDescSetAttribute");
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(
    cublasLtMatrixLayout_t, std::size_t, cudaDataType, std::uint64_t, std::uint64_t, std::int64_t) {
  return accept("cublasLtMatrixLayoutInit");
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t,
                                                cublasLtMatrixLayoutAttribute_t,
                                                void const*,
                                                std::size_t) {
  return accept("cublasLtMatrixLayoutSetAttribute");
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t, std::size_t) {
  return accept("cublasLtMatmulPreferenceInit");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void const* value,
                                                    std::size_t) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    std::memcpy(&allowed_workspace, value, sizeof allowed_workspace);
  }
  return accept("cublasLtMatmulPreferenceSetAttribute");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t,
                                              int,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  return blas_call("cublasLtMatmulAlgoGetHeuristic", [&](FakeDevice& device) {
    results[0] = {};
    results[0].state = CUBLAS_STATUS_SUCCESS;
    bool const has_counter = fake_cublaslt::counts_tiles && allowed_workspace > 0;
    results[0].workspaceSize = has_counter ? 4 : 0;
    results[0].wavesCount = fake_cublaslt::is_slow_without_counter && !has_counter ? 2.0F : 1.0F;
    *found = 1;
    return check_handle(device, handle);
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle,
                              cublasLtMatmulDesc_t,
                              void const*,
                              void const*,
                              cublasLtMatrixLayout_t,
                              void const*,
                              cublasLtMatrixLayout_t,
                              void const*,
                              void const*,
                              cublasLtMatrixLayout_t,
                              void*,
                              cublasLtMatrixLayout_t,
                              cublasLtMatmulAlgo_t const*,
                              void*,
                              std::size_t workspace_bytes,
                              cudaStream_t stream) {
  fake_cublaslt::workspace_of_product = workspace_bytes;
  return blas_call("cublasLtMatmul", [&](FakeDevice& device) {
    auto const code = check_handle(device, handle);
    return code == cudaSuccess ? device.enqueue(stream, [] {}) : code;
  });
}
