// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/calls.hpp"

#include <algorithm>
#include <iterator>

namespace msstream::overlap::record {

bool is_uninteresting(std::string_view call) {
  constexpr std::string_view kBeginnings[] = {"cudaGetDevice",
                                              "cudaSetDevice",
                                              "cudaGetLastError",
                                              "cudaPeekAtLastError",
                                              "cudaGetError",
                                              "cudaStreamIsCapturing",
                                              "cudaStreamGetCaptureInfo",
                                              "cudaStreamGetPriority",
                                              "cudaStreamGetFlags",
                                              "cudaStreamGetDevice",
                                              "cudaStreamGetId",
                                              "cudaDeviceGet",
                                              "cudaOccupancy",
                                              "cudaFuncGet",
                                              "cudaFuncSet",
                                              "cudaPointerGet",
                                              "cudaDriverGet",
                                              "cudaRuntimeGet",
                                              "cudaEventElapsedTime",
                                              "cudaThreadExchange",
                                              "cudaGetFunc",
                                              "cudaGetDriverEntryPoint",
                                              "cudaKernelGet",
                                              "cudaDeviceCanAccessPeer",
                                              "__cuda"};
  return std::any_of(std::begin(kBeginnings),
                     std::end(kBeginnings),
                     [call](std::string_view begin) { return call.starts_with(begin); });
}

bool is_interesting(std::string_view call) {
  constexpr std::string_view kBeginnings[] = {"cuLaunch",
                                              "cuMemcpy",
                                              "cuMemset",
                                              "cuStreamSynchronize",
                                              "cuStreamWaitEvent",
                                              "cuStreamWaitValue",
                                              "cuStreamQuery",
                                              "cuStreamAddCallback",
                                              "cuEventRecord",
                                              "cuEventSynchronize",
                                              "cuEventQuery",
                                              "cuCtxSynchronize",
                                              "cuMemAlloc",
                                              "cuMemFree",
                                              "cuMemHostAlloc",
                                              "cuMemHostRegister",
                                              "cuMemHostUnregister",
                                              "cuMemCreate",
                                              "cuMemRelease",
                                              "cuMemMap",
                                              "cuMemUnmap",
                                              "cuMemSetAccess",
                                              "cuMemPrefetch",
                                              "cuModuleLoad",
                                              "cuModuleUnload",
                                              "cuLibraryLoad",
                                              "cuLibraryUnload",
                                              "cuLinkComplete",
                                              "cuGraphLaunch",
                                              "cuGraphInstantiate"};
  return std::any_of(std::begin(kBeginnings),
                     std::end(kBeginnings),
                     [call](std::string_view begin) { return call.starts_with(begin); });
}

}  // namespace msstream::overlap::record
