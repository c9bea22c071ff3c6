// SPDX-License-Identifier: Apache-2.0
// A CUDA driver whose devices are all in use, as far as the recorder asks for them each time it
// wakes.
#include <cuda.h>

#include <atomic>

namespace {
int devices = 1;
std::atomic<int> looks{0};
}  // namespace

extern "C" {
void fake_devices(int count) {
  devices = count;
}
/// Returns how often somebody asked for the number of devices.
int fake_looks() {
  return looks.load();
}

CUresult cuDeviceGetCount(int* count) {
  *count = devices;
  ++looks;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = number;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned int*, int* active) {
  *active = 1;
  return CUDA_SUCCESS;
}
}
