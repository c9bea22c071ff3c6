// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/device_facts_cuda.hpp"

#include <dlfcn.h>

#include <array>

namespace msstream::overlap::record {

namespace {

/// Returns the driver's library; nullptr in a program without it.
void* loaded_driver() {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

template <class Function>
bool find(void* library, char const* name, Function*& function) {
  function = library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::optional<DriverFacts> driver_facts() {
  void* const driver = loaded_driver();
  CUresult (*get_version)(int*) = nullptr;
  CUresult (*get_count)(int*) = nullptr;
  CUresult (*get_name)(char*, int, CUdevice) = nullptr;
  CUresult (*get_memory)(std::size_t*, CUdevice) = nullptr;
  CUresult (*get_attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
  CUresult (*get)(CUdevice*, int) = nullptr;
  if (!find(driver, "cuDriverGetVersion", get_version) ||
      !find(driver, "cuDeviceGetCount", get_count) || !find(driver, "cuDeviceGetName", get_name) ||
      !find(driver, "cuDeviceTotalMem_v2", get_memory) ||
      !find(driver, "cuDeviceGetAttribute", get_attribute) || !find(driver, "cuDeviceGet", get)) {
    return DriverFacts();
  }
  DriverFacts facts;
  get_version(&facts.version);
  int count = 0;
  if (get_count(&count) != CUDA_SUCCESS) {
    return {};
  }
  for (int number = 0; number < count; ++number) {
    CUdevice device = 0;
    if (get(&device, number) != CUDA_SUCCESS) {
      continue;
    }
    auto const attribute = [&](CUdevice_attribute which) {
      int value = 0;
      return get_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
    };
    DeviceFacts of_device;
    of_device.number = number;
    std::array<char, 256> name{};
    get_name(name.data(), static_cast<int>(name.size()) - 1, device);
    of_device.name = name.data();
    std::size_t memory = 0;
    get_memory(&memory, device);
    of_device.memory_bytes = memory;
    of_device.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    of_device.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    of_device.max_threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    of_device.threads_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    of_device.blocks_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    of_device.registers_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    of_device.registers_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    of_device.warp = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    of_device.shared_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    of_device.shared_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    of_device.shared_per_block_optin =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    of_device.sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    of_device.copy_engines = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    facts.devices.push_back(std::move(of_device));
  }
  return facts;
}

int devices_in_use() {
  void* const driver = loaded_driver();
  CUresult (*get_count)(int*) = nullptr;
  CUresult (*get)(CUdevice*, int) = nullptr;
  CUresult (*get_state)(CUdevice, unsigned int*, int*) = nullptr;
  int count = 0;
  if (!find(driver, "cuDeviceGetCount", get_count) || !find(driver, "cuDeviceGet", get) ||
      !find(driver, "cuDevicePrimaryCtxGetState", get_state) || get_count(&count) != CUDA_SUCCESS) {
    return 0;
  }
  int in_use = 0;
  for (int number = 0; number < count; ++number) {
    CUdevice device = 0;
    unsigned int flags = 0;
    int is_active = 0;
    if (get(&device, number) == CUDA_SUCCESS &&
        get_state(device, &flags, &is_active) == CUDA_SUCCESS && is_active != 0) {
      ++in_use;
    }
  }
  return in_use;
}

CUcontext context_of_caller() {
  CUresult (*get_current)(CUcontext*) = nullptr;
  CUcontext context = nullptr;
  if (!find(loaded_driver(), "cuCtxGetCurrent", get_current) ||
      get_current(&context) != CUDA_SUCCESS) {
    return nullptr;
  }
  return context;
}

void finish_work_of_caller() {
  CUresult (*synchronize)() = nullptr;
  if (context_of_caller() != nullptr && find(loaded_driver(), "cuCtxSynchronize", synchronize)) {
    synchronize();  // a failure is the program's, which meets it at its next call
  }
}

}  // namespace msstream::overlap::record
