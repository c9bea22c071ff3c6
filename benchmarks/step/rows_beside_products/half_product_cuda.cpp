// SPDX-License-Identifier: Apache-2.0
#include "half_product.hpp"

#include <msstream/base/error.hpp>

#include <cublasLt.h>

#include <cstddef>
#include <utility>

namespace benchmarks {
namespace {

void check(cublasStatus_t status, char const* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw msstream::RuntimeError(
        "cuBLASLt", static_cast<int>(status), cublasLtGetStatusString(status), call);
  }
}

/// Describes the column-major matrix in the memory of a row-major one, which is its transpose.
void describe(cublasLtMatrixLayoutOpaque_t& layout,
              cudaDataType_t type,
              std::int64_t rows,
              std::int64_t columns,
              bool is_transposed) {
  if (is_transposed) {
    std::swap(rows, columns);
  }
  check(cublasLtMatrixLayoutInit(&layout,
                                 type,
                                 static_cast<std::uint64_t>(columns),
                                 static_cast<std::uint64_t>(rows),
                                 columns),
        "cublasLtMatrixLayoutInit");
}

/// The descriptors of a product. The transpose of a row-major product is right · left in
/// column-major order, so the operands change places.
struct Descriptors {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t left;
  cublasLtMatrixLayoutOpaque_t right;
  cublasLtMatrixLayoutOpaque_t product;

  Descriptors(HalfProduct const& of, std::int32_t multiprocessors) {
    check(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, of.transpose_right ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of.transpose_left ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, multiprocessors);
    describe(left, CUDA_R_16BF, of.rows, of.inner, of.transpose_left);
    describe(right, CUDA_R_16BF, of.inner, of.columns, of.transpose_right);
    describe(product, of.is_float32 ? CUDA_R_32F : CUDA_R_16BF, of.rows, of.columns, false);
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }
};

cublasLtMatmulHeuristicResult_t recommended(cublasLtHandle_t handle,
                                            Descriptors& descriptors,
                                            std::size_t workspace_bytes) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  auto const prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle,
                                       &descriptors.operation,
                                       &descriptors.right,
                                       &descriptors.left,
                                       &descriptors.product,
                                       &descriptors.product,
                                       &preference,
                                       1,
                                       &result,
                                       &found),
        "cublasLtMatmulAlgoGetHeuristic");
  check(found == 1 ? result.state : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  return result;
}

}  // namespace

void enqueue(msstream::CudaStream stream, HalfProduct const& product, int multiprocessors) {
  constexpr std::size_t kCounterBytes = 1024;
  float const one = 1.0F;
  float const zero = 0.0F;
  auto const& libraries = *stream.libraries;
  Descriptors descriptors(product, multiprocessors);
  auto bytes = libraries.workspace_bytes;
  auto chosen = recommended(libraries.blas, descriptors, bytes);
  if (chosen.workspaceSize > 0 && chosen.workspaceSize <= kCounterBytes) {
    auto const without = recommended(libraries.blas, descriptors, 0);
    if (without.wavesCount <= chosen.wavesCount) {
      chosen = without;
      bytes = 0;
    }
  }
  check(cublasLtMatmul(libraries.blas,
                       &descriptors.operation,
                       &one,
                       product.right,
                       &descriptors.right,
                       product.left,
                       &descriptors.left,
                       &zero,
                       product.product,
                       &descriptors.product,
                       product.product,
                       &descriptors.product,
                       &chosen.algo,
                       libraries.workspace,
                       bytes,
                       stream.handle),
        "cublasLtMatmul");
}

}  // namespace benchmarks
