// SPDX-License-Identifier: Apache-2.0
#include "trust/per_thread_default_stream.hpp"
#include "trust/third_party_calls.hpp"

#include <msstream/runtime/detail/sync_watch.hpp>

#include <cuda.h>
#include <cuda_runtime.h>

#include <gtest/gtest.h>

#include <cstddef>

namespace msstream::testing {
namespace {

__global__ void touch(float* element) {
  *element = 1.0F;
}

/// The streams, events and memory that the tested CUDA calls use.
struct Surroundings {
  static constexpr std::size_t bytes = 256;

  Surroundings() {
    cudaMalloc(&device, 4 * bytes);
    cudaMallocHost(&pinned, bytes);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    auto const floats = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &floats, 16, 4);
    cudaStream_t capturing = nullptr;
    cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking);
    touch<<<1, 1, 0, capturing>>>(elements());
    cudaStreamSynchronize(capturing);
    cudaStreamBeginCapture(capturing, cudaStreamCaptureModeThreadLocal);
    touch<<<1, 1, 0, capturing>>>(elements());
    cudaGraph_t captured = nullptr;
    cudaStreamEndCapture(capturing, &captured);
    cudaGraphInstantiate(&graph, captured, 0);
    cudaGetFuncBySymbol(&kernel, reinterpret_cast<void const*>(touch));
  }
  [[nodiscard]] float* elements() const { return static_cast<float*>(device); }
  [[nodiscard]] CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(device); }

  void* device = nullptr;
  void* pinned = nullptr;
  cudaEvent_t event = nullptr;
  cudaArray_t array = nullptr;
  cudaGraphExec_t graph = nullptr;
  cudaFunction_t kernel = nullptr;
  char pageable[bytes] = {};
};
Surroundings& around() {
  static Surroundings all;
  return all;
}
__device__ float symbol[4];

template <class Function>
Function* driver_call(char const* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found),
            cudaSuccess)
      << name;
  return reinterpret_cast<Function*>(function);
}

constexpr auto kToDevice = cudaMemcpyHostToDevice;
constexpr auto kToHost = cudaMemcpyDeviceToHost;
constexpr auto kOnDevice = cudaMemcpyDeviceToDevice;
constexpr std::size_t kBytes = Surroundings::bytes;

std::vector<Call> calls_about_memory() {
  return {{"cudaMalloc",
           Found::as_waiting,
           [](auto) {
             void* memory = nullptr;
             cudaMalloc(&memory, kBytes);
             msstream::detail::OwnCall const seen_already;
             cudaFree(memory);
           }},
          {"cudaMallocManaged",
           Found::as_waiting,
           [](auto) {
             void* memory = nullptr;
             cudaMallocManaged(&memory, kBytes);
             msstream::detail::OwnCall const seen_already;
             cudaFree(memory);
           }},
          {"cudaMallocPitch",
           Found::as_waiting,
           [](auto) {
             void* memory = nullptr;
             std::size_t pitch = 0;
             cudaMallocPitch(&memory, &pitch, 64, 4);
             msstream::detail::OwnCall const seen_already;
             cudaFree(memory);
           }},
          {"cudaMallocArray",
           Found::as_waiting,
           [](auto) {
             cudaArray_t array = nullptr;
             auto const floats = cudaCreateChannelDesc<float>();
             cudaMallocArray(&array, &floats, 16, 4);
             msstream::detail::OwnCall const seen_already;
             cudaFreeArray(array);
           }},
          {"cudaFree",
           Found::as_waiting,
           [](auto) {
             void* memory = nullptr;
             {
               msstream::detail::OwnCall const seen_already;
               cudaMalloc(&memory, kBytes);
             }
             cudaFree(memory);
           }},
          {"cudaFree", Found::no, [](auto) { cudaFree(nullptr); }},
          {"cudaMallocHost",
           Found::as_waiting,
           [](auto) {
             void* memory = nullptr;
             cudaMallocHost(&memory, kBytes);
             msstream::detail::OwnCall const seen_already;
             cudaFreeHost(memory);
           }},
          {"cudaHostAlloc",
           Found::as_waiting,
           [](auto) {
             void* memory = nullptr;
             cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault);
             msstream::detail::OwnCall const seen_already;
             cudaFreeHost(memory);
           }},
          {"cudaFreeHost",
           Found::as_waiting,
           [](auto) {
             void* memory = nullptr;
             {
               msstream::detail::OwnCall const seen_already;
               cudaMallocHost(&memory, kBytes);
             }
             cudaFreeHost(memory);
           }},
          {"cudaHostRegister",
           Found::as_waiting,
           [](auto) {
             cudaHostRegister(around().pageable, kBytes, cudaHostRegisterDefault);
             msstream::detail::OwnCall const seen_already;
             cudaHostUnregister(around().pageable);
           }},
          {"cudaHostUnregister",
           Found::as_waiting,
           [](auto) {
             {
               msstream::detail::OwnCall const seen_already;
               cudaHostRegister(around().pageable, kBytes, cudaHostRegisterDefault);
             }
             cudaHostUnregister(around().pageable);
           }},
          {"cudaFreeArray",
           Found::as_waiting,
           [](auto) {
             cudaArray_t array = nullptr;
             {
               msstream::detail::OwnCall const seen_already;
               auto const floats = cudaCreateChannelDesc<float>();
               cudaMallocArray(&array, &floats, 16, 4);
             }
             cudaFreeArray(array);
           }},
          {"cudaMallocAsync",
           Found::no,
           [](auto s) {
             void* memory = nullptr;
             cudaMallocAsync(&memory, kBytes, s);
             cudaFreeAsync(memory, s);
           }},
          {"cudaMallocAsync",
           Found::on_legacy_stream,
           [](auto s) {
             void* memory = nullptr;
             cudaMallocAsync(&memory, kBytes, nullptr);
             cudaFreeAsync(memory, s);
           }},
          {"cudaPointerGetAttributes", Found::no, [](auto) {
             cudaPointerAttributes attributes{};
             cudaPointerGetAttributes(&attributes, around().device);
           }}};
}

std::vector<Call> copies_and_fills() {
  return {
      {"cudaMemcpy",
       Found::as_waiting,
       [](auto) { cudaMemcpy(around().device, around().pageable, kBytes, kToDevice); }},
      {"cudaMemcpy",
       Found::as_waiting,
       [](auto) { cudaMemcpy(around().pinned, around().device, kBytes, cudaMemcpyDefault); }},
      {"cudaMemcpy",
       Found::on_legacy_stream,
       [](auto) {
         cudaMemcpy(around().device, around().elements() + kBytes / 4, kBytes, kOnDevice);
       }},
      {"cudaMemcpy2D",
       Found::as_waiting,
       [](auto) { cudaMemcpy2D(around().device, 64, around().pinned, 64, 32, 4, kToDevice); }},
      {"cudaMemcpy2DToArray",
       Found::as_waiting,
       [](auto) {
         cudaMemcpy2DToArray(around().array, 0, 0, around().pinned, 64, 64, 4, kToDevice);
       }},
      {"cudaMemcpyPeer",
       Found::on_legacy_stream,
       [](auto) {
         cudaMemcpyPeer(around().device, 0, around().elements() + kBytes / 4, 0, kBytes);
       }},
      {"cudaMemcpy3D",
       Found::as_waiting,
       [](auto) {
         cudaMemcpy3DParms copy{};
         copy.srcPtr = make_cudaPitchedPtr(around().pinned, 64, 64, 4);
         copy.dstPtr = make_cudaPitchedPtr(around().device, 64, 64, 4);
         copy.extent = make_cudaExtent(64, 4, 1);
         copy.kind = kToDevice;
         cudaMemcpy3D(&copy);
       }},
      {"cudaMemcpy2D",
       Found::on_legacy_stream,
       [](auto) {
         cudaMemcpy2D(around().device, 64, around().elements() + kBytes / 4, 64, 32, 4, kOnDevice);
       }},
      {"cudaMemcpyToSymbol",
       Found::as_waiting,
       [](auto) { cudaMemcpyToSymbol(symbol, around().pinned, sizeof(symbol)); }},
      {"cudaMemcpyFromSymbol",
       Found::as_waiting,
       [](auto) { cudaMemcpyFromSymbol(around().pinned, symbol, sizeof(symbol)); }},
      {"cudaMemset", Found::on_legacy_stream, [](auto) { cudaMemset(around().device, 0, kBytes); }},
      {"cudaMemset2D",
       Found::on_legacy_stream,
       [](auto) { cudaMemset2D(around().device, 64, 0, 32, 4); }},
      {"cudaMemcpyAsync",
       Found::no,
       [](auto s) { cudaMemcpyAsync(around().device, around().pinned, kBytes, kToDevice, s); }},
      {"cudaMemcpyAsync",
       Found::no,
       [](auto s) {
         cudaMemcpyAsync(around().device, around().pinned, kBytes, cudaMemcpyDefault, s);
       }},
      {"cudaMemcpyAsync",
       Found::as_pageable,
       [](auto s) { cudaMemcpyAsync(around().device, around().pageable, kBytes, kToDevice, s); }},
      {"cudaMemcpyAsync",
       Found::as_pageable,
       [](auto s) { cudaMemcpyAsync(around().pageable, around().device, kBytes, kToHost, s); }},
      {"cudaMemcpyAsync",
       Found::as_pageable,
       [](auto s) {
         cudaMemcpyAsync(around().device, around().pageable, kBytes, cudaMemcpyDefault, s);
       }},
      {"cudaMemcpyAsync",
       Found::on_legacy_stream,
       [](auto) { cudaMemcpyAsync(around().device, around().pinned, kBytes, kToDevice, nullptr); }},
      {"cudaMemcpyAsync",
       Found::on_legacy_stream,
       [](auto) {
         cudaMemcpyAsync(around().device, around().pinned, kBytes, kToDevice, cudaStreamLegacy);
       }},
      {"cudaMemcpyAsync",
       Found::no,
       [](auto) {
         cudaMemcpyAsync(around().device, around().pinned, kBytes, kToDevice, cudaStreamPerThread);
       }},
      {"cudaMemcpy2DAsync",
       Found::as_pageable,
       [](auto s) {
         cudaMemcpy2DAsync(around().device, 64, around().pageable, 64, 32, 4, kToDevice, s);
       }},
      {"cudaMemcpy2DAsync",
       Found::no,
       [](auto s) {
         cudaMemcpy2DAsync(around().device, 64, around().pinned, 64, 32, 4, kToDevice, s);
       }},
      {"cudaMemcpyToSymbolAsync",
       Found::as_pageable,
       [](auto s) {
         cudaMemcpyToSymbolAsync(symbol, around().pageable, sizeof(symbol), 0, kToDevice, s);
       }},
      {"cudaMemcpyPeerAsync",
       Found::on_legacy_stream,
       [](auto) {
         cudaMemcpyPeerAsync(
             around().device, 0, around().elements() + kBytes / 4, 0, kBytes, nullptr);
       }},
      {"cudaMemsetAsync",
       Found::no,
       [](auto s) { cudaMemsetAsync(around().device, 0, kBytes, s); }},
      {"cudaMemsetAsync",
       Found::on_legacy_stream,
       [](auto) { cudaMemsetAsync(around().device, 0, kBytes, nullptr); }},
      {"cudaMemset2DAsync", Found::on_legacy_stream, [](auto) {
         cudaMemset2DAsync(around().device, 64, 0, 32, 4, nullptr);
       }}};
}

std::vector<Call> work_and_waits() {
  static auto const host_work = [](void*) {};
  return {
      {"cudaDeviceSynchronize", Found::as_waiting, [](auto) { cudaDeviceSynchronize(); }},
      {"cudaStreamSynchronize", Found::no, [](auto s) { cudaStreamSynchronize(s); }},
      {"cudaStreamSynchronize",
       Found::on_legacy_stream,
       [](auto) { cudaStreamSynchronize(nullptr); }},
      {"cudaEventRecord", Found::no, [](auto s) { cudaEventRecord(around().event, s); }},
      {"cudaEventRecord",
       Found::on_legacy_stream,
       [](auto) { cudaEventRecord(around().event, nullptr); }},
      {"cudaEventSynchronize", Found::no, [](auto) { cudaEventSynchronize(around().event); }},
      {"cudaStreamWaitEvent", Found::no, [](auto s) { cudaStreamWaitEvent(s, around().event, 0); }},
      {"cudaStreamWaitEvent",
       Found::on_legacy_stream,
       [](auto) { cudaStreamWaitEvent(nullptr, around().event, 0); }},
      {"cudaLaunchKernel", Found::no, [](auto s) { touch<<<1, 1, 0, s>>>(around().elements()); }},
      {"cudaLaunchKernel",
       Found::on_legacy_stream,
       [](auto) { touch<<<1, 1>>>(around().elements()); }},
      {"cudaLaunchKernel",
       Found::no,
       [](auto) { touch<<<1, 1, 0, cudaStreamPerThread>>>(around().elements()); }},
      {"cudaLaunchKernelEx",
       Found::on_legacy_stream,
       [](auto) {
         cudaLaunchConfig_t config{};
         config.gridDim = config.blockDim = 1;
         cudaLaunchKernelEx(&config, touch, around().elements());
       }},
      {"cudaLaunchCooperativeKernel",
       Found::on_legacy_stream,
       [](auto) {
         auto* element = around().elements();
         void* arguments[] = {static_cast<void*>(&element)};
         cudaLaunchCooperativeKernel(
             reinterpret_cast<void const*>(touch), dim3(1), dim3(1), arguments, 0, nullptr);
       }},
      {"cudaLaunchHostFunc", Found::no, [](auto s) { cudaLaunchHostFunc(s, host_work, nullptr); }},
      {"cudaLaunchHostFunc",
       Found::on_legacy_stream,
       [](auto) { cudaLaunchHostFunc(nullptr, host_work, nullptr); }},
      {"cudaGraphLaunch", Found::no, [](auto s) { cudaGraphLaunch(around().graph, s); }},
      {"cudaGraphLaunch", Found::on_legacy_stream, [](auto) {
         cudaGraphLaunch(around().graph, nullptr);
       }}};
}

std::vector<Call> driver_calls() {
  static auto* const allocate = driver_call<decltype(cuMemAlloc)>("cuMemAlloc");
  static auto* const release = driver_call<decltype(cuMemFree)>("cuMemFree");
  return {{"cuCtxSynchronize",
           Found::as_waiting,
           [](auto) { driver_call<CUresult()>("cuCtxSynchronize")(); }},
          {"cuMemAlloc",
           Found::as_waiting,
           [](auto) {
             CUdeviceptr memory = 0;
             allocate(&memory, kBytes);
             msstream::detail::OwnCall const seen_already;
             release(memory);
           }},
          {"cuMemcpyDtoH",
           Found::as_waiting,
           [](auto) {
             driver_call<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH")(
                 around().pinned, around().address(), kBytes);
           }},
          {"cuMemsetD8",
           Found::on_legacy_stream,
           [](auto) {
             driver_call<decltype(cuMemsetD8)>("cuMemsetD8")(around().address(), 0, kBytes);
           }},
          {"cuMemsetD8Async",
           Found::no,
           [](auto s) {
             driver_call<decltype(cuMemsetD8Async)>("cuMemsetD8Async")(
                 around().address(), 0, kBytes, s);
           }},
          {"cuStreamWriteValue32",
           Found::on_legacy_stream,
           [](auto) {
             driver_call<decltype(cuStreamWriteValue32)>("cuStreamWriteValue32")(
                 nullptr, around().address(), 1, 0);
           }},
          {"cuStreamWriteValue32",
           Found::no,
           [](auto s) {
             driver_call<decltype(cuStreamWriteValue32)>("cuStreamWriteValue32")(
                 s, around().address(), 1, 0);
           }},
          {"cuLaunchKernel", Found::on_legacy_stream, [](auto) {
             auto* element = around().elements();
             void* arguments[] = {static_cast<void*>(&element)};
             driver_call<decltype(cuLaunchKernel)>("cuLaunchKernel")(
                 around().kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
           }}};
}

std::vector<Call> calls_in_code_whose_default_stream_is_the_threads() {
  return {{"cudaMemsetAsync",
           Found::no,
           [](auto) { per_thread_default_stream::fill(around().device, kBytes); }},
          {"cudaMemcpy2D",
           Found::no,
           [](auto) {
             per_thread_default_stream::copy_on_device(around().device,
                                                       around().elements() + kBytes / 4);
           }},
          {"cudaMemcpy", Found::as_waiting, [](auto) {
             per_thread_default_stream::copy(around().pinned, around().device, kBytes);
           }}};
}

}  // namespace

std::vector<Call> calls_of_third_parties() {
  around();
  auto all = driver_calls();
  for (auto const& more : {calls_about_memory(),
                           copies_and_fills(),
                           work_and_waits(),
                           calls_in_code_whose_default_stream_is_the_threads()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string words_of(Found found) {
  switch (found) {
    case Found::no:
      return {};
    case Found::as_waiting:
      return ", for which the host or other streams wait";
    case Found::as_pageable:
      return " with pageable host memory";
    case Found::on_legacy_stream:
      return " on the legacy default stream";
  }
  return {};
}

}  // namespace msstream::testing
