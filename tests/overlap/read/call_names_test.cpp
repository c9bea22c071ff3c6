// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/call_names.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace msstream::overlap {
namespace {

TEST(CallNames, kinds_are_found_with_and_without_versions_and_prefixes) {
  struct Case {
    std::string_view name;
    CallKind kind;
  };
  constexpr Case cases[] = {
      {"cudaLaunchKernel", CallKind::launch},
      {"cudaLaunchKernel_v7000", CallKind::launch},
      {"cudaLaunchKernel_ptsz_v7000", CallKind::launch},
      {"cudaLaunchKernelExC_v11060", CallKind::launch},
      {"cudaLaunchCooperativeKernel", CallKind::launch},
      {"cuLaunchKernelEx", CallKind::launch},
      {"hipModuleLaunchKernel", CallKind::launch},
      {"hipExtModuleLaunchKernel", CallKind::launch},
      {"cudaGraphLaunch", CallKind::graph_launch},
      {"cuGraphLaunch_ptsz", CallKind::graph_launch},
      {"cudaGraphInstantiateWithFlags", CallKind::instantiate},
      {"cuStreamWaitValue32_v2", CallKind::wait_value},
      {"cuStreamWriteValue32_v2", CallKind::other},
      {"cudaGraphAddMemcpyNode", CallKind::other},
      {"cudaLaunchHostFunc", CallKind::host_function},
      {"cudaStreamAddCallback", CallKind::host_function},
      {"cudaMemcpyAsync_v3020", CallKind::copy},
      {"cuMemcpyHtoDAsync_v2", CallKind::copy},
      {"hipMemcpyWithStream", CallKind::copy},
      {"cuMemsetD8Async", CallKind::fill},
      {"cudaMalloc", CallKind::allocate},
      {"cudaHostAlloc", CallKind::allocate},
      {"cuMemHostAlloc", CallKind::allocate},
      {"cuMemCreate", CallKind::allocate},
      {"cuArrayCreate_v2", CallKind::allocate},
      {"cuArray3DCreate_v2", CallKind::allocate},
      {"cudaMallocArray", CallKind::allocate},
      {"cudaIpcOpenMemHandle", CallKind::allocate},
      {"cuIpcOpenMemHandle_v2", CallKind::allocate},
      {"cudaDeviceEnablePeerAccess", CallKind::allocate},
      {"cuCtxEnablePeerAccess", CallKind::allocate},
      {"cuMemImportFromShareableHandle", CallKind::allocate},
      {"cuMemExportToShareableHandle", CallKind::allocate},
      {"cudaIpcOpenEventHandle", CallKind::other},
      {"cuArrayGetDescriptor", CallKind::other},
      {"cudaMallocAsync", CallKind::pool_memory},
      {"cuMemAllocFromPoolAsync", CallKind::pool_memory},
      {"cudaFree", CallKind::release},
      {"cudaFreeHost", CallKind::release},
      {"cudaFreeAsync", CallKind::pool_memory},
      {"cuMemUnmap", CallKind::release},
      {"cuArrayDestroy", CallKind::release},
      {"cudaFreeArray", CallKind::release},
      {"cudaIpcCloseMemHandle", CallKind::release},
      {"cuCtxDisablePeerAccess", CallKind::release},
      {"cudaMemPrefetchAsync", CallKind::other},
      {"cudaDeviceSynchronize", CallKind::synchronize},
      {"cuCtxSynchronize", CallKind::synchronize},
      {"cudaEventQuery", CallKind::query},
      {"cudaEventRecordWithFlags_v11010", CallKind::record_event},
      {"cudaStreamWaitEvent_v3020", CallKind::wait_event},
      {"cuModuleLoadData", CallKind::load_module},
      {"cuLibraryLoadData", CallKind::load_module},
      {"cudaGetDevice", CallKind::other},
      {"INVALID", CallKind::other},
      {"", CallKind::other},
  };
  for (auto const& [name, kind] : cases) {
    EXPECT_EQ(understand_call(name).kind, kind) << name;
  }
}

TEST(CallNames, versions_are_removed_from_names) {
  EXPECT_EQ(understand_call("cudaStreamGetCaptureInfo_v2").name, "cudaStreamGetCaptureInfo");
  EXPECT_EQ(understand_call("cudaLaunchKernel_ptsz_v7000").name, "cudaLaunchKernel");
  EXPECT_EQ(understand_call("cuMy_value").name, "cuMy_value");
  EXPECT_EQ(understand_call("cu_v").name, "cu_v");
}

TEST(CallNames, synchronising_calls_tell_what_they_wait_for) {
  EXPECT_EQ(understand_call("cudaStreamSynchronize").sync, SyncKind::stream);
  EXPECT_EQ(understand_call("cuEventSynchronize").sync, SyncKind::event);
  EXPECT_EQ(understand_call("cudaDeviceSynchronize").sync, SyncKind::device);
  EXPECT_EQ(understand_call("cudaStreamWaitEvent").sync, SyncKind::wait);
  EXPECT_EQ(understand_call("cudaMemcpy").sync, std::nullopt);
  EXPECT_TRUE(understand_call("cuLaunchKernel").is_driver);
  EXPECT_FALSE(understand_call("cudaLaunchKernel").is_driver);
}

}  // namespace
}  // namespace msstream::overlap
