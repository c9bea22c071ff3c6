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

/// How the elements of an operand belong to the terms of the product's sums: those of a term lie
/// `divisor` elements behind those of the term before.
struct Terms {
  std::int64_t count;
  std::int64_t divisor;
  std::int64_t matrix;  ///< elements from one matrix of a batch to the next
  bool is_negated;      ///< in the second half, if the sums cancel
};

/// Fills an operand with numbers of [-1, 1) that depend on their index and on `seed` alone. If the
/// sums cancel, the second half of the terms has the numbers of the first, negated in one of the
/// operands. What is left of a sum then comes from rounding, and has other leading bits if the
/// terms are added in another order.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) fill_operand_kernel(
    T* array, std::int64_t count, Terms const terms, bool cancels, std::uint32_t seed) {
  std::int64_t i = grid_thread();
  if (i >= count) {
    return;
  }
  T& element = array[i];
  float factor = 1.0F;
  auto const half = terms.count / 2;
  if (auto const term = i % terms.matrix / terms.divisor % terms.count; cancels && term >= half) {
    factor = term == 2 * half ? 0.0F : terms.is_negated ? -1.0F : 1.0F;
    i -= half * terms.divisor;
  }
  auto bits = static_cast<std::uint32_t>(i) * 2654435761U ^ seed;
  bits = (bits ^ (bits >> 15U)) * 2246822519U;
  bits = (bits ^ (bits >> 13U)) * 3266489917U;
  element = narrowed<T>(factor * (static_cast<float>(bits >> 8U) * 0x1p-23F - 1.0F));
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

struct OwnStream {
  cudaStream_t handle = nullptr;
  OwnStream() {
    check_cuda(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  }
  ~OwnStream() { static_cast<void>(cudaStreamDestroy(handle)); }
  OwnStream(OwnStream const&) = delete;
  OwnStream& operator=(OwnStream const&) = delete;
};
struct OwnEvent {
  cudaEvent_t handle = nullptr;
  OwnEvent() { check_cuda(cudaEventCreate(&handle), "cudaEventCreate"); }
  ~OwnEvent() { static_cast<void>(cudaEventDestroy(handle)); }
  OwnEvent(OwnEvent const&) = delete;
  OwnEvent& operator=(OwnEvent const&) = delete;
};
struct OwnGraph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replayed = nullptr;
  OwnGraph() = default;
  ~OwnGraph() {
    if (replayed != nullptr) {
      static_cast<void>(cudaGraphExecDestroy(replayed));
    }
    if (graph != nullptr) {
      static_cast<void>(cudaGraphDestroy(graph));
    }
  }
  OwnGraph(OwnGraph const&) = delete;
  OwnGraph& operator=(OwnGraph const&) = delete;
};

/// A stream, and memory and events that are used on it alone.
class Bench {
 public:
  Bench() = default;
  ~Bench() {
    for (auto* const memory : memory_) {
      static_cast<void>(cudaFreeAsync(memory, stream()));
    }
    static_cast<void>(cudaStreamSynchronize(stream()));
  }
  Bench(Bench const&) = delete;
  Bench& operator=(Bench const&) = delete;

  [[nodiscard]] cudaStream_t stream() const { return stream_.handle; }

  /// Returns memory until the bench ends, or null if there is none.
  [[nodiscard]] void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMallocAsync(&memory, std::max<std::size_t>(bytes, 1), stream()) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    memory_.push_back(memory);
    return memory;
  }

  /// Fills memory with the numbers of an operand.
  void fill(void* memory,
            DType dtype,
            std::int64_t count,
            Terms const& terms,
            bool cancels,
            std::uint32_t seed) {
    with_real_type("tune_products", dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      fill_operand_kernel<T><<<grid_for(count, kBlockThreads), kBlockThreads, 0, stream()>>>(
          static_cast<T*>(memory), count, terms, cancels, seed);
    });
    check_launch("tune_products");
  }

  /// Calls `issue()` `runs` times in a graph, and returns the milliseconds of the graph's second
  /// launch.
  template <class Issue>
  [[nodiscard]] float time(int runs, Issue const& issue) {
    OwnGraph own;
    check_cuda(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed),
               "cudaStreamBeginCapture");
    bool issued = true;
    for (int run = 0; run < runs; ++run) {
      issued = issue() && issued;
    }
    check_cuda(cudaStreamEndCapture(stream(), &own.graph), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&own.replayed, own.graph, 0), "cudaGraphInstantiate");
    for (int launch = 0; launch < 2; ++launch) {
      check_cuda(cudaEventRecord(begin_.handle, stream()), "cudaEventRecord");
      check_cuda(cudaGraphLaunch(own.replayed, stream()), "cudaGraphLaunch");
      check_cuda(cudaEventRecord(end_.handle, stream()), "cudaEventRecord");
    }
    check_cuda(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
    float ms = 0.0F;
    check_cuda(cudaEventElapsedTime(&ms, begin_.handle, end_.handle), "cudaEventElapsedTime");
    return issued ? ms : std::numeric_limits<float>::infinity();
  }

 private:
  OwnStream stream_;
  OwnEvent begin_;
  OwnEvent end_;
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
    a_count_ = last * key.stride_a + key.m * key.k;
    b_count_ = last * key.stride_b + key.k * key.n;
    result_bytes_ = static_cast<std::size_t>(key.batch * key.m * key.n) * bytes_of(key.result);
    bias_bytes_ = static_cast<std::size_t>(key.batch * key.m) * bytes_of(key.result);
    aux_bytes_ = uses_aux(key.epilogue) ? result_bytes_ : 0;
    a_ = bench_.allocate(static_cast<std::size_t>(a_count_) * bytes_of(key.operands));
    b_ = bench_.allocate(static_cast<std::size_t>(b_count_) * bytes_of(key.operands));
    added_ = key.adds ? bench_.allocate(result_bytes_) : nullptr;
    bias_ = bench_.allocate(bias_bytes_);
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

  /// Writes operands of sums that cancel, without bias and addend, or of other sums.
  void prepare(bool cancels) {
    auto const matrix = [](std::int64_t stride, std::int64_t elements) {
      return stride != 0 ? stride : elements;
    };
    bool const a_is_transposed = key_.transpose_a != CUBLAS_OP_N;
    bool const b_is_transposed = key_.transpose_b != CUBLAS_OP_N;
    Terms const of_a{
        key_.k, a_is_transposed ? 1 : key_.m, matrix(key_.stride_a, key_.m * key_.k), false};
    Terms const of_b{
        key_.k, b_is_transposed ? key_.n : 1, matrix(key_.stride_b, key_.k * key_.n), true};
    bench_.fill(a_, key_.operands, a_count_, of_a, cancels, 1);
    bench_.fill(b_, key_.operands, b_count_, of_b, cancels, 2);
    fill_beside(added_, key_.adds ? key_.batch * key_.m * key_.n : 0, cancels, 3);
    fill_beside(bias_, key_.batch * key_.m, cancels, 4);
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
    auto const runs = static_cast<int>(std::clamp(1e10 / operations, 1.0, 32.0));
    return bench_.time(runs, [&] { return issue(algorithm); });
  }

 private:
  /// Fills an array that is added to the sums, with zeros if they cancel.
  void fill_beside(void* memory, std::int64_t count, bool cancels, std::uint32_t seed) {
    if (count == 0) {
      return;
    }
    if (cancels) {
      check_cuda(
          cudaMemsetAsync(
              memory, 0, static_cast<std::size_t>(count) * bytes_of(key_.result), bench_.stream()),
          "cudaMemsetAsync");
    } else {
      bench_.fill(memory, key_.result, count, {1, 1, count, false}, false, seed);
    }
  }
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
  std::int64_t a_count_;
  std::int64_t b_count_;
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

/// As fastest_with_same_bits(), which takes the recommended algorithm if this throws.
Algorithm measure(CudaStream::Libraries const& libraries,
                  PlanKey const& key,
                  std::vector<Algorithm> const& algorithms) {
  auto const& recommended = algorithms.front();
  BesideCapture const beside;
  Trial trial(libraries, key);
  if (!trial.has_memory()) {
    return recommended;
  }
  std::vector<bool> same(algorithms.size(), true);
  for (bool const cancels : {true, false}) {
    trial.prepare(cancels);
    if (!trial.remember(recommended)) {
      return recommended;
    }
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      same[i] = same[i] && trial.gives_same_bits(algorithms[i]);
    }
  }
  if (!same.front()) {
    return recommended;  // does not repeat its bits, so that nothing can be compared with it
  }
  std::vector<float> least(algorithms.size(), std::numeric_limits<float>::infinity());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      if (same[i]) {
        least[i] = std::min(least[i], trial.time(algorithms[i]));
      }
    }
  }
  auto const best =
      static_cast<std::size_t>(std::min_element(least.begin(), least.end()) - least.begin());
  return least[best] < (1.0F - kLeastGain) * least.front() ? algorithms[best] : recommended;
}

}  // namespace

Algorithm fastest_with_same_bits(CudaStream::Libraries const& libraries,
                                 PlanKey const& key,
                                 std::vector<Algorithm> const& algorithms) {
  if (algorithms.size() == 1 || !has_known_operands(key.epilogue)) {
    return algorithms.front();
  }
  try {
    return measure(libraries, key, algorithms);
  } catch (RuntimeError const&) {
    static_cast<void>(cudaGetLastError());
    return algorithms.front();
  }
}

}  // namespace msstream::ops::kernels
