// SPDX-License-Identifier: Apache-2.0
#include "cuda_success.hpp"
#include "ops/table/bare_product.hpp"

#include <msstream/base/error.hpp>

#include <cublasLt.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace benchmarks::table {
namespace {

void check(cublasStatus_t status, char const* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw ms::RuntimeError(
        "cuBLASLt", static_cast<int>(status), cublasLtGetStatusString(status), call);
  }
}

cudaDataType_t type_of(ms::DType dtype) {
  return dtype == ms::DType::float16    ? CUDA_R_16F
         : dtype == ms::DType::bfloat16 ? CUDA_R_16BF
                                        : CUDA_R_32F;
}

/// Describes the column-major matrix in the memory of a row-major one, which is its transpose.
void describe(cublasLtMatrixLayoutOpaque_t& layout,
              ms::DType dtype,
              std::int64_t rows,
              std::int64_t columns,
              bool is_transposed) {
  if (is_transposed) {
    std::swap(rows, columns);
  }
  check(cublasLtMatrixLayoutInit(&layout,
                                 type_of(dtype),
                                 static_cast<std::uint64_t>(columns),
                                 static_cast<std::uint64_t>(rows),
                                 columns),
        "cublasLtMatrixLayoutInit");
}

/// The descriptors of a product. The transpose of a row-major product is right · left in
/// column-major order, so the operands change places.
struct Plan {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t left;
  cublasLtMatrixLayoutOpaque_t right;
  cublasLtMatrixLayoutOpaque_t product;
  cublasLtMatmulHeuristicResult_t chosen;

  Plan(cudaStream_t stream, BareProduct const& of) {
    check(cublasLtCreate(&handle), "cublasLtCreate");
    check(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, of.transpose_right ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of.transpose_left ? CUBLAS_OP_T : CUBLAS_OP_N);
    describe(left, of.dtype, of.rows, of.inner, of.transpose_left);
    describe(right, of.dtype, of.inner, of.columns, of.transpose_right);
    describe(product, of.is_float32 ? ms::DType::float32 : of.dtype, of.rows, of.columns, false);
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    check(cublasLtMatmulPreferenceSetAttribute(&preference,
                                               CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &of.workspace_bytes,
                                               sizeof(of.workspace_bytes)),
          "cublasLtMatmulPreferenceSetAttribute");
    int found = 0;
    std::vector<cublasLtMatmulHeuristicResult_t> offered(static_cast<std::size_t>(of.algorithms));
    check(cublasLtMatmulAlgoGetHeuristic(handle,
                                         &operation,
                                         &right,
                                         &left,
                                         &product,
                                         &product,
                                         &preference,
                                         of.algorithms,
                                         offered.data(),
                                         &found),
          "cublasLtMatmulAlgoGetHeuristic");
    check(found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED,
          "cublasLtMatmulAlgoGetHeuristic");
    chosen = offered.front();
    offered.resize(static_cast<std::size_t>(found));
    if (found > 1) {
      choose_fastest(stream, of, offered);
    }
  }
  ~Plan() { cublasLtDestroy(handle); }
  Plan(Plan const&) = delete;
  Plan& operator=(Plan const&) = delete;

  void set(cublasLtMatmulDescAttributes_t attribute, cublasOperation_t value) {
    check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  /// Enqueues the product with an algorithm.
  cublasStatus_t enqueue(cudaStream_t stream,
                         BareProduct const& of,
                         cublasLtMatmulAlgo_t const& algorithm) {
    float const one = 1.0F;
    float const zero = 0.0F;
    return cublasLtMatmul(handle,
                          &operation,
                          &one,
                          of.right,
                          &right,
                          of.left,
                          &left,
                          &zero,
                          of.product,
                          &product,
                          of.product,
                          &product,
                          &algorithm,
                          of.workspace,
                          of.workspace_bytes,
                          stream);
  }

 private:
  /// Chooses the algorithm with the least time of a few products, in the best of several rounds.
  void choose_fastest(cudaStream_t stream,
                      BareProduct const& of,
                      std::vector<cublasLtMatmulHeuristicResult_t> const& offered) {
    constexpr int kRounds = 3;
    constexpr int kProducts = 10;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    require_success(cudaEventCreate(&begin), "cudaEventCreate");
    require_success(cudaEventCreate(&end), "cudaEventCreate");
    auto least = std::numeric_limits<float>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      for (auto const& each : offered) {
        if (enqueue(stream, of, each.algo) != CUBLAS_STATUS_SUCCESS) {
          continue;
        }
        require_success(cudaEventRecord(begin, stream), "cudaEventRecord");
        for (int i = 0; i < kProducts; ++i) {
          check(enqueue(stream, of, each.algo), "cublasLtMatmul");
        }
        require_success(cudaEventRecord(end, stream), "cudaEventRecord");
        require_success(cudaEventSynchronize(end), "cudaEventSynchronize");
        float ms = 0.0F;
        require_success(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        if (ms < least) {
          least = ms;
          chosen = each;
        }
      }
    }
    require_success(cudaEventDestroy(begin), "cudaEventDestroy");
    require_success(cudaEventDestroy(end), "cudaEventDestroy");
  }
};

}  // namespace

std::function<void()> bare_product(ms::Cuda::native_stream stream, BareProduct const& of) {
  return [=, plan = std::make_shared<Plan>(stream, of)] {
    check(plan->enqueue(stream, of, plan->chosen.algo), "cublasLtMatmul");
  };
}

}  // namespace benchmarks::table
