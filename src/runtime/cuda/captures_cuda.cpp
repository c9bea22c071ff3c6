// SPDX-License-Identifier: Apache-2.0
#include "captures_cuda.hpp"

#include "check_cuda.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/cuda.hpp>

#include <algorithm>
#include <utility>

namespace msstream {

using detail::check_cuda;

void detail::CudaCaptures::begin(cudaStream_t origin) {
  cudaStreamCaptureStatus status{};
  Id id = 0;
  check_cuda(cudaStreamGetCaptureInfo(origin, &status, &id), "cudaStreamGetCaptureInfo");
  std::lock_guard const guard(mutex_);
  captures_[id] = {origin, {}};
  count_.store(captures_.size());
}

detail::CapturedCalls detail::CudaCaptures::end(cudaStream_t origin) noexcept {
  std::lock_guard const guard(mutex_);
  auto const found = std::find_if(captures_.begin(), captures_.end(), [&](auto const& entry) {
    return entry.second.origin == origin;
  });
  if (found == captures_.end()) {
    return {};
  }
  auto calls = std::move(found->second.calls);
  captures_.erase(found);
  count_.store(captures_.size());
  return calls;
}

detail::HostFunction* detail::CudaCaptures::keep_if_captured(cudaStream_t stream,
                                                             std::unique_ptr<HostFunction>& call) {
  if (!go_on()) {
    return nullptr;
  }
  cudaStreamCaptureStatus status{};
  Id id = 0;
  check_cuda(cudaStreamGetCaptureInfo(stream, &status, &id), "cudaStreamGetCaptureInfo");
  if (status != cudaStreamCaptureStatusActive) {
    return nullptr;
  }
  std::lock_guard const guard(mutex_);
  auto const found = captures_.find(id);
  return found != captures_.end() ? found->second.calls.emplace_back(std::move(call)).get()
                                  : nullptr;
}

void Cuda::begin_capture(native_stream stream) {
  make_current();
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
             "cudaStreamBeginCapture");
  try {
    captures_->begin(stream);
  } catch (...) {
    abandon_capture(stream);
    throw;
  }
}

bool Cuda::is_capture_sound(native_stream stream) const {
  home_.require_here();
  cudaStreamCaptureStatus status{};
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status == cudaStreamCaptureStatusActive;
}

Cuda::native_graph Cuda::end_capture(native_stream stream) {
  home_.require_here();
  cudaGraph_t captured = nullptr;
  cudaError_t const ended = cudaStreamEndCapture(stream, &captured);
  auto graph = std::make_unique<detail::CudaGraph>();
  graph->calls = captures_->end(stream);
  check_cuda(ended, "cudaStreamEndCapture");
  // Each kernel keeps the priority of the stream on which it was captured. Otherwise all would have
  // that of the stream that launches the graph.
  cudaError_t const made =
      cudaGraphInstantiate(&graph->executable, captured, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(captured);
  check_cuda(made, "cudaGraphInstantiate");
  // Uploads the graph now, which its first launch would do otherwise, and waits for it on the host.
  // A launch that follows the upload only in the order of a stream may never end: seen on an H200
  // that several processes shared, with driver 580, for half of the graphs with eight branches.
  check_cuda(cudaGraphUpload(graph->executable, stream), "cudaGraphUpload");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return graph.release();
}

void Cuda::abandon_capture(native_stream stream) noexcept {
  if (home_.is_left()) {
    return;
  }
  cudaGraph_t captured = nullptr;
  if (cudaStreamEndCapture(stream, &captured) != cudaSuccess) {
    cudaGetLastError();
  }
  if (captured != nullptr) {
    cudaGraphDestroy(captured);
  }
  static_cast<void>(captures_->end(stream));
}

void Cuda::launch_graph(native_graph graph, native_stream stream) {
  home_.require_here();
  check_cuda(cudaGraphLaunch(graph->executable, stream), "cudaGraphLaunch");
}

void Cuda::destroy_graph(native_graph graph) noexcept {
  if (home_.is_left()) {
    detail::HomeProcess::keep(std::shared_ptr<void const>(graph, [](detail::CudaGraph*) {}));
    return;
  }
  delete graph;
}

}  // namespace msstream
