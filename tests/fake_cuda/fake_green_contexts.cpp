// SPDX-License-Identifier: Apache-2.0
#include "fake_green_contexts.hpp"

#include "driver_call.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace fake_cuda {
namespace {

constexpr unsigned kMultiprocessors = 132;
constexpr unsigned kStep = 8;

/// The multiprocessors of descriptions, contexts and streams, by their handles. Used under the
/// lock of the device.
std::map<void const*, unsigned>& sizes() {
  static std::map<void const*, unsigned> made;
  return made;
}

}  // namespace

unsigned multiprocessors_of(cudaStream_t stream) {
  std::lock_guard const guard(FakeDevice::instance().mutex);
  auto const found = sizes().find(stream);
  return found != sizes().end() ? found->second : kMultiprocessors;
}

CUresult get_dev_resource(CUdevice, CUdevResource* resource, CUdevResourceType type) {
  return driver_call("cuDeviceGetDevResource", [&](FakeDevice&) {
    *resource = {};
    resource->type = type;
    resource->sm.smCount = kMultiprocessors;
    return CUDA_SUCCESS;
  });
}

CUresult split_by_count(CUdevResource* parts,
                        unsigned* count,
                        CUdevResource const* all,
                        CUdevResource* rest,
                        unsigned,
                        unsigned least) {
  return driver_call("cuDevSmResourceSplitByCount", [&](FakeDevice&) {
    auto const each = std::max((least + kStep - 1) / kStep, 1U) * kStep;
    auto const most = all->sm.smCount / each;
    if (parts != nullptr && most == 0) {
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    *count = parts != nullptr ? std::min(*count, most) : most;
    if (parts != nullptr) {
      std::for_each_n(parts, *count, [&](CUdevResource& part) {
        part = *all;
        part.sm.smCount = each;
      });
    }
    if (rest != nullptr) {
      *rest = *all;
      rest->sm.smCount -= *count * each;
    }
    return CUDA_SUCCESS;
  });
}

CUresult generate_desc(CUdevResourceDesc* desc, CUdevResource* resources, unsigned count) {
  return driver_call("cuDevResourceGenerateDesc", [&](FakeDevice& device) {
    if (count != 1) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *desc = static_cast<CUdevResourceDesc>(device.new_handle());
    sizes()[*desc] = resources->sm.smCount;
    return CUDA_SUCCESS;
  });
}

CUresult create_green_context(CUgreenCtx* context, CUdevResourceDesc desc, CUdevice, unsigned) {
  return driver_call("cuGreenCtxCreate", [&](FakeDevice& device) {
    *context = static_cast<CUgreenCtx>(device.new_handle());
    sizes()[*context] = sizes().at(desc);
    return CUDA_SUCCESS;
  });
}

CUresult destroy_green_context(CUgreenCtx context) {
  return driver_call("cuGreenCtxDestroy", [&](FakeDevice&) {
    return sizes().erase(context) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult create_green_stream(CUstream* stream, CUgreenCtx context, unsigned, int) {
  return driver_call("cuGreenCtxStreamCreate", [&](FakeDevice& device) {
    if (!sizes().contains(context) || device.create_stream(stream) != cudaSuccess) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    sizes()[*stream] = sizes().at(context);
    return CUDA_SUCCESS;
  });
}

}  // namespace fake_cuda
