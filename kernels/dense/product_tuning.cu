// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "dense/product_tuning.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace msstream::ops::kernels {
namespace {

constexpr int kRounds = 3;
constexpr float kLeastGain = 0.03F;

/// Fills an array with numbers of [-1, 1) that depend on their index and on `seed` alone.
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    fill_operand_kernel(T* array, std::int64_t count, std::uint32_t seed) {
  std::int64_t const i = grid_thread();
  if (i < count) {
    auto bits = static_cast<std::uint32_t>(i) * 2654435761U ^ seed;
    bits = (bits ^ (bits >> 15U)) * 2246822519U;
    bits = (bits ^ (bits >> 13U)) * 3266489917U;
    array[i] = narrowed<T>(static_cast<float>(bits >> 8U) * 0x1p-23F - 1.0F);
  }
}

__global__ void __launch_bounds__(kBlockThreads) find_difference_kernel(std::uint16_t const* some,
                                                                        std::uint16_t const* others,
                                                                        std::int64_t count,
                                                                        int* found) {
  std::int64_t const i = grid_thread();
  if (i < count && some[i] != others[i]) {
    *found = 1;
  }
}

/// Lets the thread allocate, launch and wait on streams that it does not capture, while it captures
/// another one.
class BesideCapture {
 public:
  BesideCapture() {
    check_cuda(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
  }
  ~BesideCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  BesideCapture(BesideCapture const&) = delete;
  BesideCapture& operator=(BesideCapture const&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// A stream, and memory and events that are used on it alone.
class Bench {
 public:
  Bench() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    for (auto& event : events_) {
      check_cuda(cudaEventCreate(&event), "cudaEventCreate");
    }
  }
  ~Bench() {
    for (auto* const memory : memory_) {
      static_cast<void>(cudaFreeAsync(memory, stream_));
    }
    static_cast<void>(cudaStreamSynchronize(stream_));
    for (auto* const event : events_) {
      static_cast<void>(cudaEventDestroy(event));
    }
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Bench(Bench const&) = delete;
  Bench& operator=(Bench const&) = delete;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// Returns memory until the bench ends, or null if there is none.
  [[nodiscard]] void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMallocAsync(&memory, std::max<std::size_t>(bytes, 1), stream_) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    memory_.push_back(memory);
    return memory;
  }

  /// Returns memory filled with numbers, or null if there is none.
  [[nodiscard]] void* operand(DType dtype, std::int64_t count, std::uint32_t seed) {
    auto* const memory = allocate(static_cast<std::size_t>(count) * bytes_of(dtype));
    if (memory != nullptr && count > 0) {
      with_real_type("tune_products", dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        fill_operand_kernel<T><<<grid_for(count, kBlockThreads), kBlockThreads, 0, stream_>>>(
            static_cast<T*>(memory), count, seed);
      });
      check_launch("tune_products");
    }
    return memory;
  }

  /// Calls `issue()` `runs` times in a graph, and returns the milliseconds of the graph's second
  /// launch.
  template <class Issue>
  [[nodiscard]] float time(int runs, Issue const& issue) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replayed = nullptr;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
               "cudaStreamBeginCapture");
    bool issued = true;
    for (int run = 0; run < runs; ++run) {
      issued = issue() && issued;
    }
    check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    auto const status = cudaGraphInstantiate(&replayed, graph, 0);
    check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    check_cuda(status, "cudaGraphInstantiate");
    for (int launch = 0; launch < 2; ++launch) {
      check_cuda(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
      check_cuda(cudaGraphLaunch(replayed, stream_), "cudaGraphLaunch");
      check_cuda(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
    }
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check_cuda(cudaGraphExecDestroy(replayed), "cudaGraphExecDestroy");
    float ms = 0.0F;
    check_cuda(cudaEventElapsedTime(&ms, events_[0], events_[1]), "cudaEventElapsedTime");
    return issued ? ms : std::numeric_limits<float>::infinity();
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t events_[2] = {};
  std::vector<void*> memory_;
};

bool has_known_operands(cublasLtEpilogue_t epilogue) {
  constexpr cublasLtEpilogue_t kKnown[] = {CUBLASLT_EPILOGUE_DEFAULT,
                                           CUBLASLT_EPILOGUE_RELU,
                                           CUBLASLT_EPILOGUE_BIAS,
                                           CUBLASLT_EPILOGUE_RELU_BIAS,
                                           CUBLASLT_EPILOGUE_GELU_AUX,
                                           CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                           CUBLASLT_EPILOGUE_BGRADA};
  return std::find(std::begin(kKnown), std::end(kKnown), epilogue) != std::end(kKnown);
}

/// A product of random operands, whose result, bias gradient and auxiliary matrix can be compared.
class Trial {
 public:
  Trial(CudaStream::Libraries const& libraries, PlanKey const& key)
      : libraries_(libraries), key_(key), descriptors_(key) {
    auto const last = key.batch - 1;
    result_bytes_ = static_cast<std::size_t>(key.batch * key.m * key.n) * bytes_of(key.result);
    bias_bytes_ = static_cast<std::size_t>(key.batch * key.m) * bytes_of(key.result);
    aux_bytes_ = uses_aux(key.epilogue) ? result_bytes_ : 0;
    a_ = bench_.operand(key.operands, last * key.stride_a + key.m * key.k, 1);
    b_ = bench_.operand(key.operands, last * key.stride_b + key.k * key.n, 2);
    added_ = key.adds ? bench_.operand(key.result, key.batch * key.m * key.n, 3) : nullptr;
    bias_ = bench_.operand(key.result, key.batch * key.m, 4);
    first_bias_ = bench_.allocate(bias_bytes_);
    aux_ = bench_.allocate(aux_bytes_);
    first_aux_ = bench_.allocate(aux_bytes_);
    result_ = bench_.allocate(result_bytes_);
    first_ = bench_.allocate(result_bytes_);
    workspace_ = bench_.allocate(key.workspace_bytes);
    differs_ = static_cast<int*>(bench_.allocate(sizeof(int)));
    if (uses_bias(key.epilogue)) {
      descriptors_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void const*>(bias_));
    }
    if (uses_aux(key.epilogue)) {
      descriptors_.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_);
    }
  }

  [[nodiscard]] bool has_memory() const {
    return a_ != nullptr && b_ != nullptr && (added_ != nullptr || !key_.adds) &&
           bias_ != nullptr && first_bias_ != nullptr && aux_ != nullptr && first_aux_ != nullptr &&
           result_ != nullptr && first_ != nullptr && workspace_ != nullptr && differs_ != nullptr;
  }

  /// Computes the result that later ones are compared with. Returns whether it could.
  [[nodiscard]] bool remember(Algorithm const& algorithm) {
    if (!compute(algorithm)) {
      return false;
    }
    copy(first_, result_, result_bytes_);
    copy(first_bias_, bias_, bias_bytes_);
    copy(first_aux_, aux_, aux_bytes_);
    return true;
  }

  /// Computes the product, and returns whether all bits are those of the first one.
  [[nodiscard]] bool gives_same_bits(Algorithm const& algorithm) {
    check_cuda(cudaMemsetAsync(differs_, 0, sizeof(int), bench_.stream()), "cudaMemsetAsync");
    if (!compute(algorithm)) {
      return false;
    }
    compare(result_, first_, result_bytes_);
    compare(bias_, first_bias_, bias_bytes_);
    compare(aux_, first_aux_, aux_bytes_);
    int differs = 1;
    check_cuda(cudaMemcpyAsync(
                   &differs, differs_, sizeof differs, cudaMemcpyDeviceToHost, bench_.stream()),
               "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(bench_.stream()), "cudaStreamSynchronize");
    return differs == 0;
  }

  /// Returns the milliseconds of a row of products.
  [[nodiscard]] float time(Algorithm const& algorithm) {
    auto const operations = 2.0 * static_cast<double>(key_.batch * key_.m) *
                            static_cast<double>(key_.n) * static_cast<double>(key_.k);
    auto const runs = static_cast<int>(std::clamp(4e10 / operations, 4.0, 32.0));
    return bench_.time(runs, [&] { return issue(algorithm); });
  }

 private:
  [[nodiscard]] bool issue(Algorithm const& algorithm) {
    float const one = 1.0F;
    float const beta = key_.adds ? 1.0F : 0.0F;
    return cublasLtMatmul(libraries_.blas,
                          &descriptors_.operation,
                          &one,
                          a_,
                          &descriptors_.a,
                          b_,
                          &descriptors_.b,
                          &beta,
                          key_.adds ? added_ : result_,
                          &descriptors_.d,
                          result_,
                          &descriptors_.d,
                          &algorithm.algorithm,
                          workspace_,
                          algorithm.workspace_bytes,
                          bench_.stream()) == CUBLAS_STATUS_SUCCESS;
  }
  [[nodiscard]] bool compute(Algorithm const& algorithm) {
    check_cuda(cudaMemsetAsync(result_, 0xFF, result_bytes_, bench_.stream()), "cudaMemsetAsync");
    check_cuda(cudaMemsetAsync(aux_, 0xFF, aux_bytes_, bench_.stream()), "cudaMemsetAsync");
    return issue(algorithm);
  }
  void copy(void* to, void const* from, std::size_t bytes) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, bench_.stream()),
               "cudaMemcpyAsync");
  }
  void compare(void const* some, void const* others, std::size_t bytes) {
    auto const count = static_cast<std::int64_t>(bytes / sizeof(std::uint16_t));
    if (count == 0) {
      return;
    }
    find_difference_kernel<<<grid_for(count, kBlockThreads), kBlockThreads, 0, bench_.stream()>>>(
        static_cast<std::uint16_t const*>(some),
        static_cast<std::uint16_t const*>(others),
        count,
        differs_);
    check_launch("tune_products");
  }

  CudaStream::Libraries const& libraries_;
  PlanKey const& key_;
  Descriptors descriptors_;
  Bench bench_;
  std::size_t result_bytes_;
  std::size_t bias_bytes_;
  std::size_t aux_bytes_;
  void* a_;
  void* b_;
  void* added_;
  void* bias_;
  void* first_bias_;
  void* aux_;
  void* first_aux_;
  void* result_;
  void* first_;
  void* workspace_;
  int* differs_;
};

}  // namespace

Algorithm fastest_with_same_bits(CudaStream::Libraries const& libraries,
                                 PlanKey const& key,
                                 std::vector<Algorithm> const& algorithms) {
  auto const& recommended = algorithms.front();
  if (algorithms.size() == 1 || !has_known_operands(key.epilogue)) {
    return recommended;
  }
  BesideCapture const beside;
  Trial trial(libraries, key);
  if (!trial.has_memory() || !trial.remember(recommended)) {
    return recommended;
  }
  std::vector<std::pair<float, Algorithm>> timed;
  for (auto const& each : algorithms) {
    if (trial.gives_same_bits(each)) {
      timed.emplace_back(std::numeric_limits<float>::infinity(), each);
    }
  }
  if (timed.size() < 2) {
    return recommended;
  }
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [least, algorithm] : timed) {
      least = std::min(least, trial.time(algorithm));
    }
  }
  auto const best = std::min_element(
      timed.begin(), timed.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
  // The first one gives its own bits, and is the first that was timed.
  return best->first < (1.0F - kLeastGain) * timed.front().first ? best->second : recommended;
}

}  // namespace msstream::ops::kernels
