// SPDX-License-Identifier: Apache-2.0
#include "fake_call.hpp"

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

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
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    void const*,
                                                    std::size_t) {
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
                              std::size_t,
                              cudaStream_t stream) {
  return blas_call("cublasLtMatmul", [&](FakeDevice& device) {
    auto const code = check_handle(device, handle);
    return code == cudaSuccess ? device.enqueue(stream, [] {}) : code;
  });
}
