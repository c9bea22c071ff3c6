// SPDX-License-Identifier: Apache-2.0
// A CUPTI without a GPU, as far as the recorder calls it. Its function fake_launch() adds the
// records of one launch: the call of the runtime and the kernel. fake_work() adds the driver's call
// inside, and a recording of an event with a stream's wait for it. fake_launch_on() takes as long
// as a call of CUDA does.
#include <cupti.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace {

std::mutex& mutex() {
  static auto& one = *new std::mutex;
  return one;
}

struct State {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<int> enabled;
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t used = 0;
  std::size_t dropped = 0;
  std::uint32_t correlation = 0;
  std::uint64_t event_sync = 0;
  int flushes = 0;
  bool has_system_ids = false;
  bool has_client = false;
};

State& state() {
  static auto& one = *new State;
  return one;
}

std::uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

std::uint32_t thread_id() {
  static thread_local auto const number = static_cast<std::uint32_t>(syscall(SYS_gettid));
  return state().has_system_ids ? number : static_cast<std::uint32_t>(pthread_self());
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    default:
      return 0;
  }
}

void deliver(std::unique_lock<std::mutex>& lock) {
  State& s = state();
  if (s.buffer == nullptr) {
    return;
  }
  std::uint8_t* const buffer = s.buffer;
  std::size_t const used = s.used;
  std::size_t const bytes = s.bytes;
  s.buffer = nullptr;
  lock.unlock();
  s.complete(nullptr, 0, buffer, bytes, used);
  lock.lock();
}

template <class Record>
void add(std::unique_lock<std::mutex>& lock, Record const& record) {
  State& s = state();
  if (s.enabled.count(record.kind) == 0) {
    return;
  }
  std::size_t const bytes = size_of(record.kind);
  if (s.buffer != nullptr && s.used + bytes > s.bytes) {
    deliver(lock);
  }
  if (s.buffer == nullptr) {
    std::size_t most = 0;
    s.request(&s.buffer, &s.bytes, &most);
    s.used = 0;
  }
  if (s.buffer == nullptr) {
    ++s.dropped;
    return;
  }
  std::memcpy(s.buffer + s.used, &record, bytes);
  s.used += bytes;
}

/// Adds the records of a launch; returns when it began.
std::uint64_t add_launch(std::unique_lock<std::mutex>& lock,
                         char const* kernel_name,
                         bool with_driver,
                         bool with_runtime = true) {
  State& s = state();
  std::uint32_t const launch = ++s.correlation;
  std::uint64_t const begin = now();
  CUpti_ActivityAPI call{};
  call.processId = static_cast<std::uint32_t>(getpid());
  call.threadId = thread_id();
  call.correlationId = launch;
  if (with_driver) {
    call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
    call.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
    call.start = begin + 10;
    call.end = begin + 90;
    add(lock, call);
  }
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
  call.start = begin;
  call.end = begin + 100;
  if (with_runtime) {
    add(lock, call);
  }
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = begin + 200;
  kernel.end = begin + 1200;
  kernel.contextId = 1;
  kernel.streamId = 7;
  kernel.gridX = 64;
  kernel.gridY = kernel.gridZ = 1;
  kernel.blockX = 128;
  kernel.blockY = kernel.blockZ = 1;
  kernel.registersPerThread = 32;
  kernel.correlationId = launch;
  kernel.name = kernel_name;
  kernel.channelID = 3;
  kernel.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  add(lock, kernel);
  return begin;
}

}  // namespace

extern "C" {

void fake_launch(char const* kernel_name) {
  std::unique_lock lock(mutex());
  add_launch(lock, kernel_name, false);
}

void fake_launch_on(char const* kernel_name, std::uint32_t stream) {
  constexpr std::uint64_t kCallNs = 5'000;
  std::uint64_t const begin = now();
  while (now() < begin + kCallNs) {
  }
  std::unique_lock lock(mutex());
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;
  call.processId = static_cast<std::uint32_t>(getpid());
  call.threadId = thread_id();
  call.correlationId = ++state().correlation;
  call.start = begin;
  call.end = begin + kCallNs;
  add(lock, call);
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = call.end;
  kernel.end = call.end + 2 * kCallNs;
  kernel.contextId = 1;
  kernel.streamId = stream;
  kernel.gridX = kernel.gridY = kernel.gridZ = 1;
  kernel.blockX = kernel.blockY = kernel.blockZ = 1;
  kernel.correlationId = call.correlationId;
  kernel.name = kernel_name;
  add(lock, kernel);
}

bool fake_has_client() {
  return state().has_client;
}

/// Adds the records of a launch that the program makes by the driver.
void fake_driver_launch(char const* kernel_name) {
  std::unique_lock lock(mutex());
  add_launch(lock, kernel_name, true, false);
}

std::size_t fake_kinds() {
  std::lock_guard const lock(mutex());
  return state().enabled.size();
}

/// Returns the number of flushes since the program began.
int fake_flushes() {
  std::unique_lock lock(mutex());
  return state().flushes;
}

void fake_work(char const* kernel_name) {
  std::unique_lock lock(mutex());
  State& s = state();
  std::uint64_t const begin = add_launch(lock, kernel_name, true);
  CUpti_ActivityCudaEvent2 event{};
  event.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  event.correlationId = ++s.correlation;
  event.contextId = 1;
  event.streamId = 7;
  event.eventId = 5;  // one event, used again
  event.cudaEventSyncId = ++s.event_sync;
  CUpti_ActivitySynchronization2 wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  wait.start = begin + 100;
  wait.end = begin + 150;
  wait.correlationId = ++s.correlation;
  wait.contextId = 1;
  wait.streamId = 8;
  wait.cudaEventId = 5;
  wait.cudaEventSyncId = event.cudaEventSyncId;
  add(lock, wait);  // before the record that it waits for, as with buffers of several threads
  add(lock, event);
}

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = 130001;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* time) {
  *time = now();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  state().has_client = false;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* handle,
                              CUpti_CallbackFunc,
                              void*,
                              CUpti_SubscriberParams* params) {
  if (char const* const other = std::getenv("FAKE_CUPTI_CLIENT")) {
    std::strncpy(params->oldSubscriberName, other, params->oldSubscriberSize - 1);
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  state().has_client = true;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&state());
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t number, char const** name) {
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API &&
      number == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) {
    *name = "cudaLaunchKernel_v7000";
    return CUPTI_SUCCESS;
  }
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && number == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) {
    *name = "cuLaunchKernel";
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  state().has_system_ids = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  state().request = request;
  state().complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  std::lock_guard const lock(mutex());
  state().enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  std::lock_guard const lock(mutex());
  state().enabled.erase(kind);
  return CUPTI_SUCCESS;
}
/// As CUPTI does it after the initialisation of CUDA: a single call that is enabled is not
/// recorded.
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  std::unique_lock lock(mutex());
  ++state().flushes;
  deliver(lock);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  std::uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  }
  if (next >= buffer + valid) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  std::lock_guard const lock(mutex());
  *dropped = state().dropped;
  state().dropped = 0;
  return CUPTI_SUCCESS;
}
}
