// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/kernels.hpp"
#include "fake_call.hpp"
#include "fake_queues.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

/// Fake versions of the CUDA functions that msstream-doctor alone calls, and of its kernels.

using fake_cuda::call;
using fake_cuda::FakeDevice;
using fake_cuda::MemoryKind;

namespace fake_cuda {
namespace {

/// The times of kernels that wait, as a device with hardware queues has them: a kernel begins after
/// the one before it in its stream has ended, and not before the one before it in its queue begins.
struct HardwareQueues {
  std::vector<std::uint64_t> begun = std::vector<std::uint64_t>(32);
  std::map<cudaStream_t, std::size_t> queue_of;
  std::map<cudaStream_t, std::uint64_t> ended;

  std::uint64_t begin_of_next(cudaStream_t stream, std::uint64_t ns) {
    auto const queue = queue_of.try_emplace(stream, queue_of.size() % begun.size()).first->second;
    auto const begin = std::max(begun[queue], ended[stream]);
    begun[queue] = begin;
    ended[stream] = begin + ns;
    return begin;
  }
};

HardwareQueues& hardware() {
  static HardwareQueues queues;
  return queues;
}

}  // namespace

void set_hardware_queues(int count) {
  hardware() = {std::vector<std::uint64_t>(static_cast<std::size_t>(count)), {}, {}};
}

}  // namespace fake_cuda

namespace msstream::doctor {

std::vector<int> kernel_architectures() {
  return {90};
}

cudaError_t launch_empty(cudaStream_t stream) {
  return call("cudaLaunchKernel",
              [&](FakeDevice& device) { return device.enqueue(stream, [] {}); });
}

cudaError_t launch_busy(cudaStream_t stream, int, std::uint64_t) {
  return launch_empty(stream);
}

cudaError_t launch_wait(cudaStream_t stream, std::uint64_t ns, std::uint64_t* begin_and_end) {
  return call("cudaLaunchKernel", [&](FakeDevice& device) {
    if (begin_and_end == nullptr) {
      return device.enqueue(stream, [] {});  // its times do not matter
    }
    if (!device.owns(begin_and_end, 2 * sizeof(std::uint64_t), MemoryKind::device)) {
      return device.misuse("a kernel writes outside of device memory", cudaErrorIllegalAddress);
    }
    auto const begin = fake_cuda::hardware().begin_of_next(stream, ns);
    return device.enqueue(stream, [=] {
      begin_and_end[0] = begin;
      begin_and_end[1] = begin + ns;
    });
  });
}

}  // namespace msstream::doctor

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", [&](FakeDevice&) {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  return call("cudaGetDeviceProperties", [&](FakeDevice&) {
    if (ordinal != 0) {
      return cudaErrorInvalidDevice;
    }
    *properties = {};
    std::strcpy(properties->name, "Fake H100");
    properties->major = 9;
    properties->pciBusID = 0x1b;
    properties->multiProcessorCount = 132;
    properties->totalGlobalMem = FakeDevice::kMemoryBytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", [&](FakeDevice& device) {
    auto const* const inside = kind == cudaMemcpyHostToDevice ? to : from;
    if (!device.owns(inside, bytes, MemoryKind::device)) {
      return device.misuse("copies outside of device memory", cudaErrorInvalidValue);
    }
    std::memmove(to, from, bytes);
    return cudaSuccess;
  });
}

// The fake CUDA runtime has one device, so that no test reaches the functions below.
cudaError_t cudaDeviceDisablePeerAccess(int) {
  return cudaErrorInvalidDevice;
}
cudaError_t cudaMemcpyPeerAsync(void*, int, void const*, int, std::size_t, cudaStream_t) {
  return cudaErrorInvalidDevice;
}
