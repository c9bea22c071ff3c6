// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "dense/product.hpp"

#include <msstream/base/error.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <unordered_map>
#include <utility>

namespace msstream::ops::kernels {

namespace {

void check_blas(cublasStatus_t status,
                char const* call,
                std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw RuntimeError(
        "cuBLASLt", static_cast<int>(status), cublasLtGetStatusString(status), call, where);
  }
}

bool uses_bias(cublasLtEpilogue_t epilogue) {
  return (epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA)) != 0;
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::float16 ? CUDA_R_16F : dtype == DType::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// The bytes to which matrices must be aligned for the widest loads.
constexpr std::uint32_t kVectorBytes = 16;

/// The properties of a matrix product that the choice of a cuBLASLt algorithm depends on, as the
/// key of a cached plan.
struct PlanKey {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  cublasOperation_t transpose_a;
  cublasOperation_t transpose_b;
  cublasLtEpilogue_t epilogue;
  std::int64_t batch;
  std::int64_t stride_a;
  std::int64_t stride_b;
  MatmulPrecision precision;
  DType operands;
  DType result;
  bool adds;
  bool aligned;  ///< all matrices to vectors; otherwise each to its elements
  int device;
  std::size_t workspace_bytes;

  bool operator==(PlanKey const&) const = default;
};

struct PlanKeyHash {
  std::size_t operator()(PlanKey const& key) const noexcept {
    std::uint64_t hash = 0;
    auto const mix = [&](auto value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 32U;
    };
    mix(key.m);
    mix(key.n);
    mix(key.k);
    mix(key.epilogue);
    mix((key.transpose_a << 4U) | key.transpose_b);
    mix((static_cast<std::uint64_t>(key.device) << 32U) | static_cast<std::uint64_t>(key.aligned));
    mix(key.workspace_bytes);
    mix(key.batch);
    mix(key.stride_a);
    mix(key.stride_b);
    mix((static_cast<unsigned>(key.precision) << 16U) |
        (static_cast<unsigned>(key.operands) << 8U) | (static_cast<unsigned>(key.result) << 1U) |
        static_cast<unsigned>(key.adds));
    return hash;
  }
};

PlanKey key_of(CudaStream stream, MatrixProduct const& product) {
  // Buffers are aligned to 256 bytes, but views of buffers only to their elements.
  auto const bits =
      reinterpret_cast<std::uintptr_t>(product.a) | reinterpret_cast<std::uintptr_t>(product.b) |
      reinterpret_cast<std::uintptr_t>(product.d) | reinterpret_cast<std::uintptr_t>(product.bias) |
      reinterpret_cast<std::uintptr_t>(product.added);
  auto const element_bytes = static_cast<std::uint32_t>(bytes_of(product.operands));
  auto const result_bytes = static_cast<std::uint32_t>(bytes_of(product.result));
  auto const operand_strides = product.batch == 1 ? 0 : product.stride_a | product.stride_b;
  auto const result_strides = product.batch == 1 ? 0 : product.m | (product.m * product.n);
  bool const aligned = bits % kVectorBytes == 0 &&
                       operand_strides * element_bytes % kVectorBytes == 0 &&
                       result_strides * result_bytes % kVectorBytes == 0;
  return {
      product.m,
      product.n,
      product.k,
      product.transpose_a,
      product.transpose_b,
      product.epilogue,
      product.batch,
      product.stride_a,
      product.stride_b,
      product.operands == DType::float32 ? stream.libraries->precision : MatmulPrecision::float32,
      product.operands,
      product.result,
      product.added != nullptr,
      aligned,
      stream.libraries->ordinal,
      stream.libraries->workspace_bytes};
}

/// The cuBLASLt descriptors of one product. Each thread has its own, because one of them contains
/// the bias pointer.
struct Descriptors {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a;
  cublasLtMatrixLayoutOpaque_t b;
  cublasLtMatrixLayoutOpaque_t d;

  explicit Descriptors(PlanKey const& key) {
    auto const arithmetic =
        key.precision == MatmulPrecision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_blas(cublasLtMatmulDescInit(&operation, arithmetic, CUDA_R_32F),
               "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, key.epilogue);
    if (uses_bias(key.epilogue)) {
      // The heuristic reads only the alignment of the bias pointer and never dereferences it.
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
          reinterpret_cast<void const*>(
              key.aligned
                  ? std::uintptr_t{kVectorBytes}
                  : std::uintptr_t{std::min(bytes_of(key.operands), bytes_of(key.result))}));
      if (key.batch > 1) {
        set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, key.m);
      }
    }
    auto const operands = type_of(key.operands);
    init(a, operands, key.m, key.k, key.transpose_a, key.batch, key.stride_a);
    init(b, operands, key.k, key.n, key.transpose_b, key.batch, key.stride_b);
    init(d, type_of(key.result), key.m, key.n, CUBLAS_OP_N, key.batch, key.m * key.n);
  }
  Descriptors(Descriptors const&) = delete;
  Descriptors& operator=(Descriptors const&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value const& value) {
    check_blas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
  }

 private:
  static void init(cublasLtMatrixLayoutOpaque_t& layout,
                   cudaDataType_t type,
                   std::int64_t rows,
                   std::int64_t columns,
                   cublasOperation_t transpose,
                   std::int64_t batch,
                   std::int64_t stride) {
    if (transpose != CUBLAS_OP_N) {
      std::swap(rows, columns);
    }
    check_blas(cublasLtMatrixLayoutInit(&layout,
                                        type,
                                        static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns),
                                        rows),
               "cublasLtMatrixLayoutInit");
    if (batch > 1) {
      set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
      set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
    }
  }
  template <class Value>
  static void set_layout(cublasLtMatrixLayoutOpaque_t& layout,
                         cublasLtMatrixLayoutAttribute_t attribute,
                         Value const& value) {
    check_blas(cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof value),
               "cublasLtMatrixLayoutSetAttribute");
  }
};

/// An algorithm of cuBLASLt, and the workspace that it may use.
struct Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes;
};

std::optional<Algorithm> ask_heuristic(CudaStream stream,
                                       PlanKey const& key,
                                       Descriptors& descriptors) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_blas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  auto const prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  // The mask allows an algorithm to split a sum only if the partial sums go through the workspace
  // and are added in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  auto const alignment_of = [&](DType dtype) {
    return key.aligned ? kVectorBytes : static_cast<std::uint32_t>(bytes_of(dtype));
  };
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(key.operands));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(key.operands));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(key.result));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(key.result));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  auto const ask = [&](std::uint64_t workspace_bytes) {
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    return cublasLtMatmulAlgoGetHeuristic(stream.libraries->blas,
                                          &descriptors.operation,
                                          &descriptors.a,
                                          &descriptors.b,
                                          &descriptors.d,
                                          &descriptors.d,
                                          &preference,
                                          1,
                                          &best,
                                          &found);
  };
  auto const status = ask(key.workspace_bytes);
  auto workspace_bytes = key.workspace_bytes;
  // An algorithm with a few bytes of workspace divides its tiles by a counter, which cuBLASLt sets
  // to zero before each product by a call of its own. In a row of products of 8,192 x 3,456 on an
  // H200, that takes 3 µs of 50 more than the same tiles without a counter, which cuBLASLt chooses
  // if it is given no workspace.
  constexpr std::size_t kCounterBytes = 1024;
  if (auto const first = best; status == CUBLAS_STATUS_SUCCESS && found > 0 &&
                               first.workspaceSize > 0 && first.workspaceSize <= kCounterBytes) {
    if (ask(0) == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS &&
        best.wavesCount <= first.wavesCount) {
      workspace_bytes = 0;
    } else {
      best = first;
      found = 1;
    }
  }
  // For an epilogue that cuBLASLt does not offer, it returns one of two status codes, depending on
  // its version.
  bool const refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (refused && key.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return std::nullopt;
  }
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0 || best.state != CUBLAS_STATUS_SUCCESS) {
    return std::nullopt;
  }
  return Algorithm{best.algo, workspace_bytes};
}

/// Returns the cuBLASLt algorithm for a product's shape, or nothing if there is none. The first
/// thread that asks for a shape makes the choice for the whole process.
std::optional<Algorithm> choose_algorithm(CudaStream stream,
                                          PlanKey const& key,
                                          Descriptors& descriptors) {
  static std::mutex mutex;
  static std::unordered_map<PlanKey, std::optional<Algorithm>, PlanKeyHash> chosen;
  std::lock_guard const lock(mutex);
  if (auto const known = chosen.find(key); known != chosen.end()) {
    return known->second;
  }
  return chosen.emplace(key, ask_heuristic(stream, key, descriptors)).first->second;
}

/// The cached state with which one thread issues products of one shape: descriptors and algorithm.
/// `offered` is false if cuBLASLt has no algorithm for the epilogue.
struct Plan {
  Descriptors descriptors;
  std::optional<Algorithm> algorithm;
  bool offered;

  Plan(CudaStream stream, PlanKey const& key)
      : descriptors(key),
        algorithm(choose_algorithm(stream, key, descriptors)),
        offered(algorithm.has_value()) {}
};

Plan& plan_of(CudaStream stream, PlanKey const& key) {
  thread_local std::unordered_map<PlanKey, Plan, PlanKeyHash> plans;
  if (auto const known = plans.find(key); known != plans.end()) {
    return known->second;
  }
  return plans.try_emplace(key, stream, key).first->second;
}

}  // namespace

bool try_product(CudaStream stream, MatrixProduct const& product) {
  auto const key = key_of(stream, product);
  auto& plan = plan_of(stream, key);
  bool const plain = product.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (!plan.offered) {
    if (plain) {
      throw RuntimeError("cuBLASLt",
                         static_cast<int>(CUBLAS_STATUS_NOT_SUPPORTED),
                         "no algorithm",
                         "a product of m = " + std::to_string(product.m) + ", n = " +
                             std::to_string(product.n) + ", k = " + std::to_string(product.k));
    }
    return false;
  }
  if (uses_bias(product.epilogue)) {
    plan.descriptors.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  }
  float const beta = product.added != nullptr ? 1.0F : 0.0F;
  auto const status = cublasLtMatmul(stream.libraries->blas,
                                     &plan.descriptors.operation,
                                     &product.factor,
                                     product.a,
                                     &plan.descriptors.a,
                                     product.b,
                                     &plan.descriptors.b,
                                     &beta,
                                     product.added != nullptr ? product.added : product.d,
                                     &plan.descriptors.d,
                                     product.d,
                                     &plan.descriptors.d,
                                     &plan.algorithm->algorithm,
                                     stream.libraries->workspace,
                                     plan.algorithm->workspace_bytes,
                                     stream.handle);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED && !plain) {
    plan.offered = false;  // every other thread gets the status for this product, too
    return false;
  }
  check_blas(status, "cublasLtMatmul");
  return true;
}

}  // namespace msstream::ops::kernels
