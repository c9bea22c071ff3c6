// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "dense/product.hpp"
#include "dense/product_plan.hpp"
#include "dense/product_tuning.hpp"

#include <msstream/base/error.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::ops::kernels {

namespace {

PlanKey key_of(CudaStream stream, MatrixProduct const& product) {
  // Buffers are aligned to 256 bytes, but views of buffers only to their elements.
  auto const bits =
      reinterpret_cast<std::uintptr_t>(product.a) | reinterpret_cast<std::uintptr_t>(product.b) |
      reinterpret_cast<std::uintptr_t>(product.d) | reinterpret_cast<std::uintptr_t>(product.bias) |
      reinterpret_cast<std::uintptr_t>(product.added);
  auto const element_bytes =
      product.fp8 ? 1U : static_cast<std::uint32_t>(bytes_of(product.operands));
  auto const result_bytes = static_cast<std::uint32_t>(bytes_of(product.result));
  auto const operand_strides = product.batch == 1 ? 0 : product.stride_a | product.stride_b;
  auto const result_strides = product.batch == 1 ? 0 : product.m | (product.m * product.n);
  bool const aligned = bits % kVectorBytes == 0 &&
                       operand_strides * element_bytes % kVectorBytes == 0 &&
                       result_strides * result_bytes % kVectorBytes == 0;
  return {product.m,
          product.n,
          product.k,
          product.transpose_a,
          product.transpose_b,
          product.epilogue,
          product.batch,
          product.stride_a,
          product.stride_b,
          !product.fp8 && product.operands == DType::float32 ? stream.libraries->precision
                                                             : MatmulPrecision::float32,
          product.operands,
          product.result,
          product.added != nullptr,
          aligned,
          stream.libraries->ordinal,
          stream.libraries->workspace_bytes,
          // The trials of a tuning have operands of other types.
          stream.libraries->tunes_products && !product.fp8,
          product.fp8.has_value(),
          product.fp8 ? product.fp8->a : Fp8Format::e4m3,
          product.fp8 ? product.fp8->b : Fp8Format::e4m3};
}

constexpr int kMostOffers = 8;  // cuBLASLt 13 offers no more

/// The results of cuBLASLt's heuristic, the recommended algorithm first. An array, because
/// nvcc 13.0 fails on a std::vector of this type, which is an alias of a struct without a name.
struct Offers {
  cublasLtMatmulHeuristicResult_t results[kMostOffers];
  int count = 0;

  /// Drops all results unless there are any, and then those that cuBLASLt does not offer.
  void keep_usable(bool any) {
    int usable = 0;
    for (int i = 0; any && i < count; ++i) {
      if (results[i].state == CUBLAS_STATUS_SUCCESS) {
        results[usable++] = results[i];
      }
    }
    count = usable;
  }
  [[nodiscard]] bool empty() const { return count == 0; }
  [[nodiscard]] cublasLtMatmulHeuristicResult_t const& front() const { return results[0]; }
  [[nodiscard]] auto const* begin() const { return results; }
  [[nodiscard]] auto const* end() const { return results + count; }
};

/// Returns the algorithms that cuBLASLt offers for a product, the recommended one first: one with
/// the workspace, or up to `most` with it and as many without it. Empty if there is none for the
/// epilogue.
std::vector<Algorithm> offered_algorithms(CudaStream stream,
                                          PlanKey const& key,
                                          Descriptors& descriptors,
                                          int most) {
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
  auto const alignment_of = [&](std::uint32_t element_bytes) {
    return key.aligned ? kVectorBytes : element_bytes;
  };
  auto const result_bytes = static_cast<std::uint32_t>(bytes_of(key.result));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(key.operand_bytes()));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(key.operand_bytes()));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(result_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(result_bytes));
  auto const ask = [&](std::uint64_t workspace_bytes, Offers& offers) {
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    auto const status = cublasLtMatmulAlgoGetHeuristic(stream.libraries->blas,
                                                       &descriptors.operation,
                                                       &descriptors.a,
                                                       &descriptors.b,
                                                       &descriptors.d,
                                                       &descriptors.d,
                                                       &preference,
                                                       most,
                                                       offers.results,
                                                       &offers.count);
    offers.keep_usable(status == CUBLAS_STATUS_SUCCESS);
    return status;
  };
  Offers with;
  auto const status = ask(key.workspace_bytes, with);
  // For an epilogue that cuBLASLt does not offer, it returns one of two status codes, depending on
  // its version. On a GPU without products of 8-bit floats it may return a third one.
  bool const refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                       status == CUBLAS_STATUS_INVALID_VALUE ||
                       (key.is_fp8 && status == CUBLAS_STATUS_ARCH_MISMATCH);
  if (refused && (key.epilogue != CUBLASLT_EPILOGUE_DEFAULT || key.is_fp8)) {
    return {};
  }
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Algorithm> algorithms;
  if (with.empty()) {
    return {};
  }
  for (auto const& offer : with) {
    algorithms.push_back({offer.algo, key.workspace_bytes});
  }
  // An algorithm with a few bytes of workspace divides its tiles by a counter, which cuBLASLt sets
  // to zero before each product by a call of its own. In a row of products of 8,192 x 3,456 on an
  // H200, that takes 3 µs of 50 more than the same tiles without a counter, which cuBLASLt chooses
  // if it is given no workspace.
  constexpr std::size_t kCounterBytes = 1024;
  auto const& first = with.front();
  bool const counts = first.workspaceSize > 0 && first.workspaceSize <= kCounterBytes;
  Offers without;
  if (counts || most > 1) {
    static_cast<void>(ask(0, without));
  }
  for (auto const& offer : without) {
    algorithms.push_back({offer.algo, 0});
  }
  if (counts && !without.empty() && without.front().wavesCount <= first.wavesCount) {
    std::swap(algorithms.front(), algorithms[static_cast<std::size_t>(with.count)]);
  }
  return algorithms;
}

/// Returns the algorithm for a product that cuBLASLt recommends, or the one that is measured to be
/// the fastest.
std::optional<Algorithm> best_algorithm(CudaStream stream,
                                        PlanKey const& key,
                                        Descriptors& descriptors) {
  auto const offered = offered_algorithms(stream, key, descriptors, key.is_tuned ? kMostOffers : 1);
  if (offered.empty()) {
    return std::nullopt;
  }
  return key.is_tuned ? fastest_with_same_bits(*stream.libraries, key, offered) : offered.front();
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
  return chosen.emplace(key, best_algorithm(stream, key, descriptors)).first->second;
}

/// The cached state with which one thread issues products of one shape: descriptors and algorithm.
/// `offered` is false if cuBLASLt has no algorithm for the epilogue or for products of 8-bit
/// floats.
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
  bool const required = product.epilogue == CUBLASLT_EPILOGUE_DEFAULT && !product.fp8;
  if (!plan.offered) {
    if (required) {
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
  if (uses_aux(product.epilogue)) {
    plan.descriptors.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.aux);
  }
  if (product.fp8) {
    plan.descriptors.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.fp8->scale_a);
    plan.descriptors.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.fp8->scale_b);
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
  if (status == CUBLAS_STATUS_NOT_SUPPORTED && !required) {
    plan.offered = false;  // every other thread gets the status for this product, too
    return false;
  }
  check_blas(status, "cublasLtMatmul");
  return true;
}

}  // namespace msstream::ops::kernels
