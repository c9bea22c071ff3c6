// SPDX-License-Identifier: Apache-2.0
#include "check_cuda.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/cuda.hpp>

#include <cuda_runtime_api.h>

#include <atomic>

namespace msstream {

using detail::check_cuda;

namespace {

// Ids of the default streams. They are far from the ids that CUDA gives to other streams, which are
// counted from 1.
constexpr std::uint64_t kDefaultStreamId = std::uint64_t{1} << 62U;
constexpr std::uint64_t kThreadStreamIds = std::uint64_t{1} << 63U;

/// Returns an id for the calling thread's default stream. An id of CUDA's cannot be used, because
/// CUDA has a single handle for the default streams of all threads.
std::uint64_t thread_stream_id() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local std::uint64_t const id = kThreadStreamIds + threads.fetch_add(1);
  return id;
}

}  // namespace

std::optional<ForeignStream> Cuda::identify(native_stream stream) const {
  home_.require_here();
  // Queries the capture status first: all other queries of the stream would invalidate a capture.
  cudaStreamCaptureStatus status{};
  cudaError_t const code = cudaStreamIsCapturing(stream, &status);
  // cudaErrorStreamCaptureImplicit means that `stream` is the default stream while another stream
  // is captured.
  if (code == cudaErrorStreamCaptureImplicit) {
    cudaGetLastError();
    return std::nullopt;
  }
  check_cuda(code, "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) {
    return std::nullopt;
  }
  if (stream == nullptr || stream == cudaStreamLegacy) {
    return ForeignStream{kDefaultStreamId, true};
  }
  if (stream == cudaStreamPerThread) {
    return ForeignStream{thread_stream_id(), false};
  }
  unsigned long long id = 0;
  check_cuda(cudaStreamGetId(stream, &id), "cudaStreamGetId");
  return ForeignStream{id, false};
}

Cuda::Visit::Visit(int ordinal) noexcept {
  // Permits calls of this thread during captures by other threads. The capture mode that forbids
  // them is meant for calls that would block a capture; msstream makes no such calls.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  capture_mode_before_ = mode;
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current != ordinal &&
      cudaSetDevice(ordinal) == cudaSuccess) {
    device_before_ = current;
  }
}

Cuda::Visit::~Visit() {
  if (device_before_ >= 0) {
    cudaSetDevice(device_before_);
    forget_current();
  }
  auto mode = static_cast<cudaStreamCaptureMode>(capture_mode_before_);
  cudaThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace msstream
