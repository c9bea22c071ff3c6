// SPDX-License-Identifier: Apache-2.0
// Two branches with streams and events of one's own, and with scopes. Then what else a CUDA program
// has: handles of libraries, temporary memory, work on a stream that msstream does not know, and
// memory that it did not allocate.
#include "teach.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <cub/device/device_reduce.cuh>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ms = msstream;

namespace {

constexpr int kSide = 256;
constexpr int kCount = kSide * kSide;
constexpr int kThreads = 256;
constexpr int kBlocks = kCount / kThreads;

void require(cudaError_t error) {
  teach::expect(error == cudaSuccess, cudaGetErrorString(error));
}

void require(cublasStatus_t status) {
  teach::expect(status == CUBLAS_STATUS_SUCCESS, cublasGetStatusString(status));
}

__global__ void scale(float const* input, float factor, float* output) {
  auto const i = blockIdx.x * blockDim.x + threadIdx.x;
  output[i] = factor * input[i];
}

__global__ void add(float const* left, float const* right, float* sum) {
  auto const i = blockIdx.x * blockDim.x + threadIdx.x;
  sum[i] = left[i] + right[i];
}

// Puts 2 x + 3 x into `sum`. The caller has made the streams and the event.
void add_by_hand(
    float const* x, float* sum, cudaStream_t left, cudaStream_t right, cudaEvent_t ready) {
  float* twice = nullptr;
  float* thrice = nullptr;
  require(cudaMallocAsync(&twice, kCount * sizeof(float), left));
  require(cudaMallocAsync(&thrice, kCount * sizeof(float), right));
  scale<<<kBlocks, kThreads, 0, left>>>(x, 2.0F, twice);
  scale<<<kBlocks, kThreads, 0, right>>>(x, 3.0F, thrice);
  require(cudaEventRecord(ready, right));
  require(cudaStreamWaitEvent(left, ready));  // without it, a race
  add<<<kBlocks, kThreads, 0, left>>>(twice, thrice, sum);
  require(cudaFreeAsync(twice, left));
  require(cudaFreeAsync(thrice, left));  // on `right` it would be a use after free
}

using Floats = ms::Tensor<float>;

Floats scaled(Floats const& x, float factor) {
  Floats output(x.device(), x.shape());
  ms::issue("scale",
            ms::reads(x),
            ms::writes(output),
            [from = x.data(), factor, to = output.data()](ms::CudaStream stream) {
              scale<<<kBlocks, kThreads, 0, stream>>>(from, factor, to);
            });
  return output;
}

Floats added(Floats const& left, Floats const& right) {
  Floats sum(left.device(), left.shape());
  ms::issue("add",
            ms::reads(left, right),
            ms::writes(sum),
            [a = left.data(), b = right.data(), c = sum.data()](ms::CudaStream stream) {
              add<<<kBlocks, kThreads, 0, stream>>>(a, b, c);
            });
  return sum;
}

Floats add_by_scopes(ms::StreamPool<> const& pool, Floats const& x) {
  auto const twice = [&] {
    ms::StreamScope const left(pool[0]);
    return scaled(x, 2.0F);
  }();
  auto const thrice = [&] {
    ms::StreamScope const right(pool[1]);
    return scaled(x, 3.0F);
  }();
  return added(twice, thrice);  // the memory of both is free for others when the sum has read it
}

// A handle of cuBLAS serves one stream at a time, so each group has one.
struct DestroyBlas {
  void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
};
using Blas = std::unique_ptr<cublasContext, DestroyBlas>;

Blas make_blas() {
  cublasHandle_t handle = nullptr;
  require(cublasCreate(&handle));
  return Blas(handle);
}

Floats product(cublasHandle_t blas, Floats const& a, Floats const& b) {
  Floats c(a.device(), {kSide, kSide});
  ms::issue(
      "product",
      ms::reads(a, b),
      ms::writes(c),
      [blas, a = a.data(), b = b.data(), c = c.data()](ms::CudaStream stream) {
        auto const& group = *stream.libraries;
        require(cublasSetStream(blas, stream));
        require(cublasSetWorkspace(blas, group.workspace, group.workspace_bytes));
        float const one = 1.0F;
        float const zero = 0.0F;
        auto const none = CUBLAS_OP_N;  // by columns, b * a is the product a * b by rows
        require(cublasSgemm(
            blas, none, none, kSide, kSide, kSide, &one, b, kSide, a, kSide, &zero, c, kSide));
      });
  return c;
}

Floats sum_of(Floats const& x) {
  std::size_t bytes = 0;
  require(cub::DeviceReduce::Sum(nullptr, bytes, x.data(), static_cast<float*>(nullptr), kCount));
  ms::Tensor<std::uint8_t> scratch(x.device(), {static_cast<std::int64_t>(bytes)});
  Floats sum(x.device(), {1});
  ms::issue(
      "sum",
      ms::reads(x),
      ms::writes(sum, scratch),
      [from = x.data(), to = sum.data(), memory = scratch.data(), bytes](ms::CudaStream stream) {
        auto available = bytes;
        require(cub::DeviceReduce::Sum(memory, available, from, to, kCount, stream));
      });
  return sum;  // the temporary memory is free for others when the sum is done
}

// Halves the values on a stream that msstream does not know, such as that of another library.
void halve_on(cudaStream_t theirs, cudaEvent_t event, ms::StreamGroup<> group, Floats const& x) {
  auto const ours = group.compute();
  ms::TensorHolder holder(ours);
  holder.hold(x);  // `ours` waits for earlier uses of the tensor
  require(cudaEventRecord(event, ours.native()));
  require(cudaStreamWaitEvent(theirs, event));
  scale<<<kBlocks, kThreads, 0, theirs>>>(x.data(), 0.5F, x.data());
  require(cudaEventRecord(event, theirs));
  require(cudaStreamWaitEvent(ours.native(), event));
}  // later uses of the tensor wait for `ours`, and so for the work on `theirs`

// Doubles memory of the program's own. Uses of it by other groups need an order by the program.
void double_in_place(ms::Device<> const& device, float* memory) {
  auto const raw = ms::raw_memory(device, memory, kCount);
  ms::issue("double", ms::writes(raw), [memory](ms::CudaStream stream) {
    scale<<<kBlocks, kThreads, 0, stream>>>(memory, 2.0F, memory);
  });
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<> const device;
    ms::StreamPool<> pool(device, {.groups = 2});
    std::vector<float> const ones(kCount, 1.0F);
    auto const x = ms::to_device(device, ones, {kSide, kSide});
    teach::expect(ms::to_host(add_by_scopes(pool, x))[0] == 5.0F, "2 x + 3 x, by scopes");

    std::vector<Blas> handles;
    for (int i = 0; i < pool.groups(); ++i) {
      handles.push_back(make_blas());
    }
    {
      ms::StreamScope const scope(pool[0]);
      teach::expect(ms::to_host(product(handles[0].get(), x, x))[0] == kSide, "a product");
      teach::expect(ms::to_host(sum_of(x))[0] == kCount, "a sum");
    }

    cudaStream_t left = nullptr;
    cudaStream_t right = nullptr;
    cudaEvent_t event = nullptr;
    require(cudaStreamCreateWithFlags(&left, cudaStreamNonBlocking));
    require(cudaStreamCreateWithFlags(&right, cudaStreamNonBlocking));
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    halve_on(left, event, pool[1], x);
    teach::expect(ms::to_host(x)[0] == 0.5F, "half, by a stream of one's own");

    float* memory = nullptr;
    require(cudaMalloc(&memory, kCount * sizeof(float)));
    add_by_hand(x.data(), memory, left, right, event);  // to_host() has waited for the halves
    require(cudaStreamSynchronize(left));
    {
      ms::StreamScope const scope(pool[0]);
      double_in_place(device, memory);
    }
    pool.synchronize();
    std::vector<float> values(kCount);
    require(cudaMemcpy(values.data(), memory, kCount * sizeof(float), cudaMemcpyDeviceToHost));
    teach::expect(values[0] == 5.0F, "2 x + 3 x by hand, of the half, doubled");
    require(cudaFree(memory));
    require(cudaEventDestroy(event));
    require(cudaStreamDestroy(left));
    require(cudaStreamDestroy(right));
  });
}
