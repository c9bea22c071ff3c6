// SPDX-License-Identifier: Apache-2.0
#include "captures_cuda.hpp"
#include "check_cuda.hpp"
#include "host_call_cuda.hpp"
#include "pages_cuda.hpp"
#include "pinned_copy_cuda.hpp"
#include "runtime/settled_at_exit.hpp"
#include "sm_parts_cuda.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>

#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>

namespace msstream {

using detail::check_cuda;

namespace {

thread_local int current_ordinal = -1;

constexpr cudaMemcpyKind direction_of(CopyKind kind) {
  switch (kind) {
    case CopyKind::h2d:
      return cudaMemcpyHostToDevice;
    case CopyKind::d2h:
      return cudaMemcpyDeviceToHost;
    case CopyKind::d2d:
      break;
  }
  return cudaMemcpyDeviceToDevice;
}

cudaPointerAttributes attributes_of(void const* memory) {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes;
}

/// Converts a stream priority to a number of CUDA's range of priorities.
int level_of(StreamPriority priority) {
  int least = 0;
  int greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  switch (priority) {
    case StreamPriority::high:
      return greatest;
    case StreamPriority::low:
      return least;
    case StreamPriority::normal:
      break;
  }
  return (least + greatest) / 2;
}

void CUDART_CB run_and_delete(void* call) {
  detail::RuntimeThread const marked;
  std::unique_ptr<detail::HostFunction> const owned(static_cast<detail::HostFunction*>(call));
  owned->run();
}

/// Runs a host function of a graph. Called at each launch of the graph, so it does not delete the
/// function.
void CUDART_CB run_captured(void* call) {
  detail::RuntimeThread const marked;
  static_cast<detail::HostFunction*>(call)->run();
}

/// Returns the process that made the first call of the CUDA driver. The driver does not work in
/// children of that process.
detail::HomeProcess const& first_call_of_driver() noexcept {
  static detail::HomeProcess const home(RuntimeLife::driver);
  return home;
}

}  // namespace

int Cuda::device_count() noexcept {
  int count = 0;
  if (first_call_of_driver().is_left() || cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string Cuda::why_no_device() {
  if (first_call_of_driver().is_left()) {
    return "the driver was used before fork(), so that this child cannot use it";
  }
  int count = 0;
  auto const code = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (code == cudaSuccess) {
    return count > 0 ? std::string() : std::string("no GPU is visible");
  }
  int supported = 0;
  if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&supported) == cudaSuccess) {
    constexpr int kNeeded = CUDART_VERSION / 1000;
    return supported == 0
               ? fmt::format("there is no driver of NVIDIA, and this build needs one for CUDA {}.0",
                             kNeeded)
               : fmt::format(
                     "the driver supports CUDA {}.{}, and this build needs {}.0 or newer: "
                     "update the driver; msstream-doctor says which it is",
                     supported / 1000,
                     supported % 1000 / 10,
                     kNeeded);
  }
  return code == cudaErrorNoDevice ? std::string("no GPU is visible")
                                   : fmt::format("{}, says CUDA", cudaGetErrorString(code));
}

Cuda::Cuda() : Cuda(Options()) {}

Cuda::Cuda(Options options) : ordinal_(options.ordinal) {
  first_call_of_driver().require_here();
  int count = 0;
  auto const counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInitializationError && detail::HomeProcess::is_forked()) {
    detail::HomeProcess::throw_forked();  // other code has used the driver in the parent process
  }
  if (counted != cudaSuccess) {
    cudaGetLastError();
    count = 0;
  }
  if (ordinal_ < 0 || ordinal_ >= count) {
    throw CudaError(count == 0 && counted != cudaSuccess ? counted : cudaErrorInvalidDevice,
                    fmt::format("device {} asked, {} visible{}; Device<Host> needs none",
                                ordinal_,
                                count,
                                count == 0 ? fmt::format(" ({})", why_no_device()) : std::string()),
                    "Cuda::Cuda");
  }
  make_current();
  check_cuda(cudaFree(nullptr), "cudaFree");  // makes the driver register its handlers for exit()
  detail::leave_drivers_at_exit();
  pages_ = std::make_unique<detail::CudaPages>(ordinal_);
  captures_ = std::make_unique<detail::CudaCaptures>();
  sm_parts_ = std::make_unique<detail::CudaSmParts>(ordinal_);
  host_failure_ = std::make_shared<detail::HostFailure>();
}

Cuda::~Cuda() {
  if (home_.is_left()) {
    detail::HomeProcess::keep(std::shared_ptr<void const>(std::move(sm_parts_)));
  }
}

void Cuda::make_current() const {
  home_.require_here();
  if (current_ordinal != ordinal_) [[unlikely]] {
    check_cuda(cudaSetDevice(ordinal_), "cudaSetDevice");
    current_ordinal = ordinal_;
  }
}

void Cuda::forget_current() noexcept {
  current_ordinal = -1;
}

Cuda::native_stream Cuda::create_stream(StreamPriority priority) {
  return create_stream(priority, {});
}

Cuda::native_stream Cuda::create_stream(StreamPriority priority, SmPartition partition) {
  make_current();
  int const level = level_of(priority);
  if (!partition.is_all()) {
    return sm_parts_->create_stream(partition, level);
  }
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, level),
             "cudaStreamCreateWithPriority");
  return stream;
}

int Cuda::most_sm_parts() const noexcept {
  return sm_parts_->most();
}

void Cuda::destroy_stream(native_stream stream) noexcept {
  if (!home_.is_left()) {
    cudaStreamDestroy(stream);
  }
}

void Cuda::synchronize_stream(native_stream stream) {
  home_.require_here();
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  host_failure_->rethrow();
}

Cuda::native_event Cuda::create_event(EventTiming timing) {
  make_current();
  cudaEvent_t event = nullptr;
  unsigned const flags = timing == EventTiming::timed ? cudaEventDefault : cudaEventDisableTiming;
  check_cuda(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return event;
}

void Cuda::destroy_event(native_event event) noexcept {
  if (!home_.is_left()) {
    cudaEventDestroy(event);
  }
}

void Cuda::record(native_event event, native_stream stream) {
  home_.require_here();
  check_cuda(cudaEventRecord(event, stream), "cudaEventRecord");
}

void Cuda::wait(native_stream stream, native_event event) {
  home_.require_here();
  check_cuda(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

bool Cuda::query(native_event event) {
  home_.require_here();
  cudaError_t const code = cudaEventQuery(event);
  if (code == cudaErrorNotReady) {
    return false;
  }
  check_cuda(code, "cudaEventQuery");
  host_failure_->rethrow();
  return true;
}

void Cuda::synchronize(native_event event) {
  home_.require_here();
  check_cuda(cudaEventSynchronize(event), "cudaEventSynchronize");
  host_failure_->rethrow();
}

double Cuda::elapsed_ns(native_event begin, native_event end) {
  home_.require_here();
  // Waits for the event `begin` as well, because it may be on another stream than `end`.
  check_cuda(cudaEventSynchronize(begin), "cudaEventSynchronize");
  check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e6;
}

void* Cuda::allocate_device(std::size_t bytes) {
  make_current();
  void* memory = nullptr;
  cudaError_t const code = cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    auto const info = memory_info();
    throw OutOfMemory(bytes,
                      fmt::format("cuda runtime: {} bytes asked, the device has {} of {} free",
                                  bytes,
                                  info.free_bytes,
                                  info.total_bytes));
  }
  check_cuda(code, "cudaMalloc");
  return memory;
}

void Cuda::free_device(void* memory, std::size_t) noexcept {
  if (!home_.is_left()) {
    cudaFree(memory);
  }
}

void* Cuda::allocate_pinned(std::size_t bytes) {
  make_current();
  void* memory = nullptr;
  cudaError_t const code = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw OutOfMemory(bytes,
                      fmt::format("cuda runtime: no {} bytes of pinned memory to be had", bytes));
  }
  check_cuda(code, "cudaHostAlloc");
  return memory;
}

void Cuda::free_pinned(void* memory, std::size_t) noexcept {
  if (!home_.is_left()) {
    cudaFreeHost(memory);
  }
}

MemoryInfo Cuda::memory_info() const {
  make_current();
  MemoryInfo info{};
  check_cuda(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "cudaMemGetInfo");
  return info;
}

bool Cuda::is_pinned(void const* host_memory) const {
  make_current();
  return attributes_of(host_memory).type != cudaMemoryTypeUnregistered;
}

void Cuda::copy(
    void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream) {
  home_.require_here();
  if (kind != CopyKind::d2d && bytes <= detail::kMostPinnedCopyBytes && captures_->go_on() &&
      is_capture_sound(stream)) {
    bool const to_device = kind == CopyKind::h2d;
    // Host memory has a device address only if it is pinned.
    if (auto* const on_host = attributes_of(to_device ? from : to).devicePointer) {
      check_cuda(detail::copy_by_kernel(
                     to_device ? to : on_host, to_device ? on_host : from, bytes, stream),
                 "a kernel that copies");
      return;
    }
  }
  check_cuda(cudaMemcpyAsync(to, from, bytes, direction_of(kind), stream), "cudaMemcpyAsync");
}

void Cuda::fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
  home_.require_here();
  check_cuda(cudaMemsetAsync(memory, value, bytes, stream), "cudaMemsetAsync");
}

void Cuda::call_host(native_stream stream, Closure closure) {
  home_.require_here();
  auto owned = std::make_unique<detail::HostFunction>(
      detail::HostFunction{std::move(closure), host_failure_});
  if (auto* const kept = captures_->keep_if_captured(stream, owned)) {
    check_cuda(cudaLaunchHostFunc(stream, run_captured, kept), "cudaLaunchHostFunc");
    return;
  }
  check_cuda(cudaLaunchHostFunc(stream, run_and_delete, owned.get()), "cudaLaunchHostFunc");
  owned.release();
}

}  // namespace msstream
