// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/product.hpp"

#include <msstream/base/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

/// The parts of a cached plan of product.cu: the key of a shape, its descriptors and its algorithm.
namespace msstream::ops::kernels {

inline void check_blas(cublasStatus_t status,
                       char const* call,
                       std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw RuntimeError(
        "cuBLASLt", static_cast<int>(status), cublasLtGetStatusString(status), call, where);
  }
}

inline bool uses_bias(cublasLtEpilogue_t epilogue) {
  return (epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA)) != 0;
}

inline bool uses_aux(cublasLtEpilogue_t epilogue) {
  constexpr auto kAux = static_cast<unsigned>(CUBLASLT_EPILOGUE_GELU_AUX) &
                        ~static_cast<unsigned>(CUBLASLT_EPILOGUE_GELU);
  return (static_cast<unsigned>(epilogue) & kAux) != 0;
}

inline cudaDataType_t type_of(DType dtype) {
  return dtype == DType::float16 ? CUDA_R_16F : dtype == DType::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

inline cudaDataType_t type_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

/// The bytes to which matrices must be aligned for the widest loads.
inline constexpr std::uint32_t kVectorBytes = 16;

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
  bool is_tuned;  ///< by measurement
  bool is_fp8 = false;
  Fp8Format format_a = Fp8Format::e4m3;
  Fp8Format format_b = Fp8Format::e4m3;

  [[nodiscard]] cudaDataType_t type_a() const {
    return is_fp8 ? type_of(format_a) : type_of(operands);
  }
  [[nodiscard]] cudaDataType_t type_b() const {
    return is_fp8 ? type_of(format_b) : type_of(operands);
  }
  /// Returns the bytes of an element of a or b.
  [[nodiscard]] std::uint32_t operand_bytes() const {
    return is_fp8 ? 1 : static_cast<std::uint32_t>(bytes_of(operands));
  }

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
    mix((static_cast<unsigned>(key.is_tuned) << 8U) | (key.transpose_a << 4U) | key.transpose_b);
    mix((static_cast<std::uint64_t>(key.device) << 32U) | static_cast<std::uint64_t>(key.aligned));
    mix(key.workspace_bytes);
    mix(key.batch);
    mix(key.stride_a);
    mix(key.stride_b);
    mix((static_cast<unsigned>(key.is_fp8) << 24U) | (static_cast<unsigned>(key.format_a) << 25U) |
        (static_cast<unsigned>(key.format_b) << 26U) |
        (static_cast<unsigned>(key.precision) << 16U) |
        (static_cast<unsigned>(key.operands) << 8U) | (static_cast<unsigned>(key.result) << 1U) |
        static_cast<unsigned>(key.adds));
    return hash;
  }
};

/// The cuBLASLt descriptors of one product. Each thread has its own, because one of them contains
/// the pointers of the bias and of the scales.
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
              key.aligned ? std::uintptr_t{kVectorBytes}
                          : std::min<std::uintptr_t>(key.operand_bytes(), bytes_of(key.result))));
      if (key.batch > 1) {
        set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, key.m);
      }
    }
    if (uses_aux(key.epilogue)) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
          reinterpret_cast<void const*>(std::uintptr_t{kVectorBytes}));
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.m);
      if (key.batch > 1) {
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, key.m * key.n);
      }
    }
    if (key.is_fp8) {
      // The heuristic does not dereference the pointers of the scales.
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
          reinterpret_cast<void const*>(std::uintptr_t{kVectorBytes}));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
          reinterpret_cast<void const*>(std::uintptr_t{kVectorBytes}));
    }
    init(a, key.type_a(), key.m, key.k, key.transpose_a, key.batch, key.stride_a);
    init(b, key.type_b(), key.k, key.n, key.transpose_b, key.batch, key.stride_b);
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

}  // namespace msstream::ops::kernels
