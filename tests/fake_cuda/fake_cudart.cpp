// SPDX-License-Identifier: Apache-2.0
#include "fake_call.hpp"

#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <cstddef>
#include <cstring>
#include <utility>

/// Fake versions of the CUDA runtime functions that the library calls for streams, events and
/// memory. A program that calls any other CUDA function does not link, so every call is counted.

using fake_cuda::call;
using fake_cuda::FakeDevice;
using fake_cuda::MemoryKind;

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](FakeDevice& device) {
    constexpr int kLeast = CUDART_VERSION / 1000 * 1000;
    *count = device.driver_version >= kLeast ? 1 : 0;
    return device.driver_version >= kLeast ? cudaSuccess : cudaErrorInsufficientDriver;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&](FakeDevice& device) {
    *version = device.driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* ordinal) {
  return call("cudaGetDevice", [&](FakeDevice&) {
    *ordinal = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int ordinal) {
  return call("cudaSetDevice",
              [&](FakeDevice&) { return ordinal == 0 ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaGetLastError() {
  static_cast<void>(call("cudaGetLastError", [](FakeDevice&) { return cudaSuccess; }));
  return std::exchange(fake_cuda::last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  static_cast<void>(call("cudaPeekAtLastError", [](FakeDevice&) { return cudaSuccess; }));
  return fake_cuda::last_error;
}

char const* cudaGetErrorString(cudaError_t) {
  return "an error of the fake CUDA runtime";
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&](FakeDevice&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call("cudaStreamCreateWithPriority", [&](FakeDevice& device) {
    if (flags != cudaStreamNonBlocking || priority > 0 || priority < -5) {
      return device.misuse(
          fmt::format("creates a stream with flags {}, priority {}", flags, priority),
          cudaErrorInvalidValue);
    }
    return device.create_stream(stream);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy",
              [&](FakeDevice& device) { return device.destroy_stream(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize",
              [&](FakeDevice& device) { return device.synchronize_stream(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call("cudaStreamWaitEvent",
              [&](FakeDevice& device) { return device.wait(stream, event); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call("cudaLaunchHostFunc", [&](FakeDevice& device) {
    return device.enqueue_host_function(stream, function, data);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](FakeDevice& device) {
    return device.create_event(event, (flags & cudaEventDisableTiming) == 0);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&](FakeDevice& device) { return device.destroy_event(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&](FakeDevice& device) { return device.record(event, stream); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&](FakeDevice& device) { return device.query(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize",
              [&](FakeDevice& device) { return device.synchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call("cudaEventElapsedTime",
              [&](FakeDevice& device) { return device.elapsed_ms(milliseconds, begin, end); });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return call("cudaMalloc", [&](FakeDevice& device) {
    return device.allocate(memory, bytes, MemoryKind::device);
  });
}

cudaError_t cudaMallocAsync(void**, std::size_t, cudaStream_t) {
  return call("cudaMallocAsync", [](FakeDevice&) { return cudaErrorNotSupported; });
}

cudaError_t cudaFreeAsync(void*, cudaStream_t) {
  return call("cudaFreeAsync", [](FakeDevice&) { return cudaErrorNotSupported; });
}

cudaError_t cudaFree(void* memory) {
  return call("cudaFree",
              [&](FakeDevice& device) { return device.release(memory, MemoryKind::device); });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&](FakeDevice& device) {
    return device.allocate(memory, bytes, MemoryKind::pinned);
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return call("cudaFreeHost",
              [&](FakeDevice& device) { return device.release(memory, MemoryKind::pinned); });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return call("cudaMemGetInfo", [&](FakeDevice& device) {
    *free_bytes = device.free_bytes();
    *total_bytes = FakeDevice::kMemoryBytes;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* memory) {
  return call("cudaPointerGetAttributes", [&](FakeDevice& device) {
    *attributes = {};
    attributes->type = device.owns(memory, 1, MemoryKind::device)   ? cudaMemoryTypeDevice
                       : device.owns(memory, 1, MemoryKind::pinned) ? cudaMemoryTypeHost
                                                                    : cudaMemoryTypeUnregistered;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(
    void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&](FakeDevice& device) {
    auto const side = [](bool on_host) {
      return on_host ? MemoryKind::pinned : MemoryKind::device;
    };
    bool const fits = device.owns(to, bytes, side(kind == cudaMemcpyDeviceToHost)) &&
                      device.owns(from, bytes, side(kind == cudaMemcpyHostToDevice));
    if (!fits) {
      return device.misuse(
          fmt::format("copies {} bytes, kind {}, from or to pageable memory or outside of all",
                      bytes,
                      static_cast<int>(kind)),
          cudaErrorInvalidValue);
    }
    return device.enqueue(stream, [=] { std::memmove(to, from, bytes); });
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&](FakeDevice& device) {
    if (!device.owns(memory, bytes, MemoryKind::device)) {
      return device.misuse(fmt::format("fills {} bytes outside of device memory", bytes),
                           cudaErrorInvalidValue);
    }
    return device.enqueue(stream, [=] { std::memset(memory, value, bytes); });
  });
}
