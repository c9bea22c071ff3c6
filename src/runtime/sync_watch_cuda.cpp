// SPDX-License-Identifier: Apache-2.0
#include "cupti_cuda.hpp"

#include <msstream/base/text.hpp>
#include <msstream/runtime/sync_watch_cuda.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

namespace msstream {

#if MSSTREAM_HAS_CUPTI

namespace {

/// Calls that make the host or all streams wait, whatever their arguments.
constexpr CUpti_CallbackId kSynchronising[] = {CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaMallocHost_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaFreeHost_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaHostAlloc_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaHostRegister_v4000,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaHostUnregister_v4000,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbol_v3020,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020};
/// Calls of which it depends on the arguments.
constexpr CUpti_CallbackId kSuspect[] = {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
                                         CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
                                         CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
                                         CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060};

/// Callbacks come from within CUDA on any thread; what they look at must outlive the last one.
struct Watchers {
  std::mutex mutex;
  std::vector<Checker*> checkers;
};
Watchers& watchers() {
  static auto& all = *new Watchers;
  return all;
}

void tell(std::string const& what) {
  auto& all = watchers();
  std::lock_guard const guard(all.mutex);
  for (auto* const checker : all.checkers) {
    checker->implicit_sync(what);
  }
}

bool is_legacy_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy;
}

bool is_pageable(void const* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeUnregistered;
}

/// What is wrong with the call; empty: nothing.
std::string complaint(CUpti_CallbackId id, CUpti_CallbackData const& call) {
  auto const on_default_stream = [&](cudaStream_t stream) {
    return is_legacy_default(stream)
               ? text(call.functionName,
                      " on the legacy default stream, which all blocking streams wait for")
               : std::string();
  };
  switch (id) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020: {
      auto const& copy = *static_cast<cudaMemcpyAsync_v3020_params const*>(call.functionParams);
      bool const pageable = (copy.kind == cudaMemcpyHostToDevice && is_pageable(copy.src)) ||
                            (copy.kind == cudaMemcpyDeviceToHost && is_pageable(copy.dst));
      return pageable ? text("cudaMemcpyAsync with pageable host memory, for which the host waits")
                      : on_default_stream(copy.stream);
    }
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020:
      return on_default_stream(
          static_cast<cudaMemsetAsync_v3020_params const*>(call.functionParams)->stream);
    case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000:
      return on_default_stream(
          static_cast<cudaLaunchKernel_v7000_params const*>(call.functionParams)->stream);
    case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060:
      return on_default_stream(
          static_cast<cudaLaunchKernelExC_v11060_params const*>(call.functionParams)
              ->config->stream);
    default:
      return text(call.functionName, ", for which the host or other streams wait");
  }
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId id, void const* data) {
  auto const& call = *static_cast<CUpti_CallbackData const*>(data);
  if (call.callbackSite != CUPTI_API_ENTER || !ConcurrentRegion::entered() || OwnCall::active()) {
    return;
  }
  auto const wrong = [&] {
    OwnCall const asking_cuda_back;
    return complaint(id, call);
  }();
  if (!wrong.empty()) {
    tell(wrong);
  }
}

}  // namespace

SyncWatch<Cuda>::SyncWatch(std::shared_ptr<Checker> checker) : checker_(std::move(checker)) {
  static_cast<void>(sees_calls());
  auto& all = watchers();
  std::lock_guard const guard(all.mutex);
  all.checkers.push_back(checker_.get());
}

SyncWatch<Cuda>::~SyncWatch() {
  auto& all = watchers();
  std::lock_guard const guard(all.mutex);
  all.checkers.erase(std::find(all.checkers.begin(), all.checkers.end(), checker_.get()));
}

bool SyncWatch<Cuda>::sees_calls() noexcept {
  static bool const subscribed = [] {
    auto const problem = detail::subscribe_to_runtime_calls(on_call, kSynchronising, kSuspect);
    if (!problem.empty()) {
      std::fprintf(
          stderr, "msstream check: implicit synchronisations are not seen: %s\n", problem.c_str());
    }
    return problem.empty();
  }();
  return subscribed;
}

#else

SyncWatch<Cuda>::SyncWatch(std::shared_ptr<Checker> checker) : checker_(std::move(checker)) {
  static_cast<void>(sees_calls());
}
SyncWatch<Cuda>::~SyncWatch() = default;

bool SyncWatch<Cuda>::sees_calls() noexcept {
  static bool const told = [] {
    std::fprintf(stderr,
                 "msstream check: implicit synchronisations are not seen: built without cupti.h\n");
    return false;
  }();
  return told;
}

#endif

}  // namespace msstream
