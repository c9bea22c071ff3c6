// SPDX-License-Identifier: Apache-2.0
// Declares what CUPTI's headers of CUDA 12.4 lack, as CUPTI of later versions has it in its binary
// interface. The recorder asks the CUPTI that it loads for its version, so that it records as much
// whichever headers it was built with.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace msstream::overlap::record {

using EnableCall = CUptiResult CUPTIAPI(CUpti_CallbackId call, std::uint8_t enable);
using EnableAllSyncs = CUptiResult CUPTIAPI(std::uint8_t enable);

#if CUPTI_API_VERSION >= 26  // CUDA 12.8
using SynchronizationRecord = CUpti_ActivitySynchronization2;
using EventRecord = CUpti_ActivityCudaEvent2;
#else
struct alignas(8) SynchronizationRecord {
  CUpti_ActivityKind kind;
  CUpti_ActivitySynchronizationType type;
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t correlationId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::uint32_t cudaEventId;
  std::uint64_t cudaEventSyncId;
  std::uint32_t returnValue;
  std::uint32_t pad;
};
struct alignas(8) EventRecord {
  CUpti_ActivityKind kind;
  std::uint32_t correlationId;
  std::uint32_t contextId;
  std::uint32_t streamId;
  std::uint32_t eventId;
  std::uint32_t pad;
  std::uint32_t deviceId;
  std::uint32_t pad2;
  void* reserved0;
  std::uint64_t deviceTimestamp;
  std::uint64_t cudaEventSyncId;
};
#endif
static_assert(offsetof(SynchronizationRecord, cudaEventSyncId) == 40);
static_assert(offsetof(EventRecord, deviceId) == 24);
static_assert(offsetof(EventRecord, cudaEventSyncId) == 48);

#if CUPTI_API_VERSION >= 130000
using SubscriberParams = CUpti_SubscriberParams;
#else
struct SubscriberParams {
  std::size_t structSize;
  char const* subscriberName;
  char* oldSubscriberName;
  std::size_t oldSubscriberSize;
};
#endif
static_assert(sizeof(SubscriberParams) == 32);
using Subscribe = CUptiResult CUPTIAPI(CUpti_SubscriberHandle* subscriber,
                                       CUpti_CallbackFunc callback,
                                       void* user,
                                       SubscriberParams* params);

}  // namespace msstream::overlap::record
