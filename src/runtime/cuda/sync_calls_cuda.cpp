// SPDX-License-Identifier: Apache-2.0
#include "sync_calls_cuda.hpp"

#include "cupti_cuda.hpp"

#if MSSTREAM_HAS_CUPTI

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>

namespace msstream::detail {

namespace {

using NullStream = SyncCall::NullStream;

constexpr std::string_view kWaits = ", for which the host or other streams wait";
constexpr std::string_view kPageable = " with pageable host memory, for which the host waits";
constexpr std::string_view kLegacy =
    " on the legacy default stream, which all blocking streams wait for";

enum class Place : std::uint8_t { device, pinned, pageable };

Place place_of(void const* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();
    return Place::device;
  }
  return attributes.type == cudaMemoryTypeUnregistered ? Place::pageable
         : attributes.type == cudaMemoryTypeHost       ? Place::pinned
                                                       : Place::device;
}
Place place_of(CUdeviceptr memory) {
  return place_of(std::bit_cast<void const*>(memory));
}
Place place_of(CUmemorytype type, void const* on_host, CUdeviceptr unified) {
  return type == CU_MEMORYTYPE_HOST      ? place_of(on_host)
         : type == CU_MEMORYTYPE_UNIFIED ? place_of(unified)
                                         : Place::device;
}

/// Returns the slowest kind of memory that the CUDA call accesses: pageable, pinned or device
/// memory.
template <class Parameters>
Place touched_by(Parameters const& call) {
  if constexpr (requires { call.srcHost; }) {
    return place_of(call.srcHost);
  } else if constexpr (requires { call.dstHost; }) {
    return place_of(call.dstHost);
  } else if constexpr (requires { call.pCopy; }) {
    auto const& copy = *call.pCopy;
    return std::max(place_of(copy.srcMemoryType, copy.srcHost, copy.srcDevice),
                    place_of(copy.dstMemoryType, copy.dstHost, copy.dstDevice));
  } else if constexpr (requires { call.src; }) {
    return std::max(place_of(call.src), place_of(call.dst));
  } else {
    return Place::device;
  }
}

template <class Parameters>
CUstream stream_of(Parameters const& call) {
  if constexpr (requires { call.config; }) {
    return call.config->hStream;
  } else if constexpr (requires { call.stream; }) {
    return call.stream;
  } else {
    return call.hStream;
  }
}

std::string_view anything(void const*, NullStream) {
  return kWaits;
}

std::string_view on_the_null_stream(void const*, NullStream null_stream) {
  return null_stream == NullStream::legacy ? kLegacy : std::string_view();
}

/// Explains what waits for a blocking copy. If host memory is involved, the host waits. A copy
/// within the device is instead work on the null stream.
template <class Parameters>
std::string_view blocking_copy(void const* parameters, NullStream null_stream) {
  return touched_by(*static_cast<Parameters const*>(parameters)) == Place::device
             ? on_the_null_stream(parameters, null_stream)
             : kWaits;
}

template <class Parameters>
std::string_view release(void const* parameters, NullStream) {
  auto const& call = *static_cast<Parameters const*>(parameters);
  bool released = false;
  if constexpr (requires { call.dptr; }) {
    released = call.dptr != 0;
  } else {
    released = call.p != nullptr;
  }
  return released ? kWaits : std::string_view();
}

template <class Parameters>
std::string_view work(void const* parameters, NullStream null_stream) {
  auto const& call = *static_cast<Parameters const*>(parameters);
  if (touched_by(call) == Place::pageable) {
    return kPageable;
  }
  auto* const stream = stream_of(call);
  bool const is_legacy =
      stream == CU_STREAM_LEGACY || (stream == nullptr && null_stream == NullStream::legacy);
  return is_legacy ? kLegacy : std::string_view();
}

struct Row {
  std::string_view name;
  decltype(SyncCall::judge) judge;
};
constexpr Row kRows[] = {
    {"cuCtxSynchronize", anything},
    {"cuCtxSynchronize_v2", anything},
    {"cuMemAlloc_v2", anything},
    {"cuMemAllocPitch_v2", anything},
    {"cuMemAllocManaged", anything},
    {"cuMemAllocHost_v2", anything},
    {"cuMemHostAlloc", anything},
    {"cuMemHostAlloc_v2", anything},
    {"cuMemHostRegister", anything},
    {"cuMemHostRegister_v2", anything},
    {"cuMemHostUnregister", anything},
    {"cuArrayCreate_v2", anything},
    {"cuArray3DCreate_v2", anything},
    {"cuArrayDestroy", anything},
    {"cuMipmappedArrayCreate", anything},
    {"cuMipmappedArrayDestroy", anything},
    {"cuMemcpy", blocking_copy<cuMemcpy_params>},
    {"cuMemcpyHtoD_v2", anything},
    {"cuMemcpyDtoH_v2", anything},
    {"cuMemcpyHtoA_v2", anything},
    {"cuMemcpyAtoH_v2", anything},
    {"cuMemcpy2D_v2", blocking_copy<cuMemcpy2D_v2_params>},
    {"cuMemcpy2DUnaligned_v2", blocking_copy<cuMemcpy2DUnaligned_v2_params>},
    {"cuMemcpy3D_v2", blocking_copy<cuMemcpy3D_v2_params>},
    {"cuMemcpyDtoD_v2", on_the_null_stream},
    {"cuMemcpyDtoA_v2", on_the_null_stream},
    {"cuMemcpyAtoD_v2", on_the_null_stream},
    {"cuMemcpyAtoA_v2", on_the_null_stream},
    {"cuMemcpyPeer", on_the_null_stream},
    {"cuMemcpy3DPeer", on_the_null_stream},
    {"cuMemsetD8_v2", on_the_null_stream},
    {"cuMemsetD16_v2", on_the_null_stream},
    {"cuMemsetD32_v2", on_the_null_stream},
    {"cuMemsetD2D8_v2", on_the_null_stream},
    {"cuMemsetD2D16_v2", on_the_null_stream},
    {"cuMemsetD2D32_v2", on_the_null_stream},
    {"cuMemFree_v2", release<cuMemFree_v2_params>},
    {"cuMemFreeHost", release<cuMemFreeHost_params>},
    {"cuLaunchKernel", work<cuLaunchKernel_params>},
    {"cuLaunchKernelEx", work<cuLaunchKernelEx_params>},
    {"cuLaunchCooperativeKernel", work<cuLaunchCooperativeKernel_params>},
    {"cuLaunchHostFunc", work<cuLaunchHostFunc_params>},
    {"cuStreamAddCallback", work<cuStreamAddCallback_params>},
    {"cuGraphLaunch", work<cuGraphLaunch_params>},
    {"cuEventRecord", work<cuEventRecord_params>},
    {"cuEventRecordWithFlags", work<cuEventRecordWithFlags_params>},
    {"cuStreamWaitEvent", work<cuStreamWaitEvent_params>},
    {"cuStreamSynchronize", work<cuStreamSynchronize_params>},
    {"cuMemAllocAsync", work<cuMemAllocAsync_params>},
    {"cuMemAllocFromPoolAsync", work<cuMemAllocFromPoolAsync_params>},
    {"cuMemFreeAsync", work<cuMemFreeAsync_params>},
    {"cuMemPrefetchAsync", work<cuMemPrefetchAsync_params>},
    {"cuMemPrefetchAsync_v2", work<cuMemPrefetchAsync_v2_params>},
    {"cuStreamAttachMemAsync", work<cuStreamAttachMemAsync_params>},
    {"cuStreamWaitValue32_v2", work<cuStreamWaitValue32_v2_params>},
    {"cuStreamWaitValue64_v2", work<cuStreamWaitValue64_v2_params>},
    {"cuStreamWriteValue32_v2", work<cuStreamWriteValue32_v2_params>},
    {"cuStreamWriteValue64_v2", work<cuStreamWriteValue64_v2_params>},
    {"cuStreamBatchMemOp_v2", work<cuStreamBatchMemOp_v2_params>},
    {"cuSignalExternalSemaphoresAsync", work<cuSignalExternalSemaphoresAsync_params>},
    {"cuWaitExternalSemaphoresAsync", work<cuWaitExternalSemaphoresAsync_params>},
    {"cuMemMapArrayAsync", work<cuMemMapArrayAsync_params>},
    {"cuGraphUpload", work<cuGraphUpload_params>},
    {"cuMemcpyAsync", work<cuMemcpyAsync_params>},
    {"cuMemcpyHtoDAsync_v2", work<cuMemcpyHtoDAsync_v2_params>},
    {"cuMemcpyDtoHAsync_v2", work<cuMemcpyDtoHAsync_v2_params>},
    {"cuMemcpyDtoDAsync_v2", work<cuMemcpyDtoDAsync_v2_params>},
    {"cuMemcpyHtoAAsync_v2", work<cuMemcpyHtoAAsync_v2_params>},
    {"cuMemcpyAtoHAsync_v2", work<cuMemcpyAtoHAsync_v2_params>},
    {"cuMemcpy2DAsync_v2", work<cuMemcpy2DAsync_v2_params>},
    {"cuMemcpy3DAsync_v2", work<cuMemcpy3DAsync_v2_params>},
    {"cuMemcpyPeerAsync", work<cuMemcpyPeerAsync_params>},
    {"cuMemcpy3DPeerAsync", work<cuMemcpy3DPeerAsync_params>},
    {"cuMemsetD8Async", work<cuMemsetD8Async_params>},
    {"cuMemsetD16Async", work<cuMemsetD16Async_params>},
    {"cuMemsetD32Async", work<cuMemsetD32Async_params>},
    {"cuMemsetD2D8Async", work<cuMemsetD2D8Async_params>},
    {"cuMemsetD2D16Async", work<cuMemsetD2D16Async_params>},
    {"cuMemsetD2D32Async", work<cuMemsetD2D32Async_params>},
};

}  // namespace

SyncCall sync_call(std::string_view name) {
  auto null_stream = NullStream::legacy;
  for (std::string_view const suffix : {"_ptds", "_ptsz"}) {
    if (name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
      null_stream = NullStream::per_thread;
    }
  }
  auto const* const row = std::find_if(
      std::begin(kRows), std::end(kRows), [&](Row const& r) { return r.name == name; });
  return row == std::end(kRows) ? SyncCall() : SyncCall{row->judge, null_stream};
}

}  // namespace msstream::detail

#endif
