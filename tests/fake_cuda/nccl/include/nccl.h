// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

/// The declarations of NCCL 2.28 that the library uses, for builds without NCCL: those that only
/// compile, and test_fake_cuda, which defines the functions in fake_nccl.cpp. Values of enumerators
/// are not NCCL's.

#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, 0)
#define NCCL_CONFIG_INITIALIZER \
  {}

using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
using ncclWindow_t = struct ncclWindow_vidmem*;
struct ncclConfig_t {
  int blocking = 1;
  int maxCTAs = 0;
  int CTAPolicy = 0;
};
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_WIN_COLL_SYMMETRIC 0x01
enum ncclResult_t { ncclSuccess, ncclInternalError, ncclSystemError, ncclInvalidArgument, ncclInProgress };
enum ncclDataType_t { ncclFloat32, ncclFloat16, ncclBfloat16, ncclInt32, ncclInt64, ncclUint8, ncclFloat = ncclFloat32 };
enum ncclRedOp_t { ncclSum, ncclAvg, ncclMax, ncclMin };

extern "C" {

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes);
ncclResult_t ncclMemFree(void* memory);
ncclResult_t ncclCommWindowRegister(
    ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
char const* ncclGetErrorString(ncclResult_t result);
char const* ncclGetLastError(ncclComm_t comm);

ncclResult_t ncclAllReduce(void const* input,
                           void* output,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t operation,
                           ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(void const* input,
                               void* output,
                               std::size_t count,
                               ncclDataType_t type,
                               ncclRedOp_t operation,
                               ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclAllGather(void const* input,
                           void* output,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclAlltoAll(void const* input,
                          void* output,
                          std::size_t count,
                          ncclDataType_t type,
                          ncclComm_t comm,
                          cudaStream_t stream);
ncclResult_t ncclBroadcast(void const* input,
                           void* output,
                           std::size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSend(void const* input,
                      std::size_t count,
                      ncclDataType_t type,
                      int to,
                      ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* output,
                      std::size_t count,
                      ncclDataType_t type,
                      int from,
                      ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

}  // extern "C"
