// SPDX-License-Identifier: Apache-2.0
#include "fake_call.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

/// Fake versions of the CUDA functions that inspect streams of other code, and of the capture
/// functions that the library calls.

using fake_cuda::call;
using fake_cuda::FakeDevice;

namespace {

thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call("cudaStreamBeginCapture",
              [&](FakeDevice& device) { return device.begin_capture(stream); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture",
              [&](FakeDevice& device) { return device.end_capture(stream, graph); });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     cudaStreamCaptureStatus* status,
                                     unsigned long long* id,
                                     cudaGraph_t*,
                                     cudaGraphNode_t const**,
                                     cudaGraphEdgeData const**,
                                     std::size_t*) {
  return call("cudaStreamGetCaptureInfo", [&](FakeDevice& device) {
    auto const* const capture = device.capture_of(stream);
    *status = capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    *id = reinterpret_cast<std::uintptr_t>(capture);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable,
                                 cudaGraph_t graph,
                                 unsigned long long flags) {
  return call("cudaGraphInstantiate", [&](FakeDevice& device) {
    if ((flags & cudaGraphInstantiateFlagUseNodePriority) == 0) {
      return device.misuse("a graph whose kernels lose the priorities of their streams",
                           cudaErrorInvalidValue);
    }
    auto const capture = device.graphs.at(graph);
    *executable = static_cast<cudaGraphExec_t>(device.new_handle());
    device.graphs.emplace(*executable, capture);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphUpload",
              [&](FakeDevice& device) { return device.upload(executable, stream); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphLaunch",
              [&](FakeDevice& device) { return device.launch(executable, stream); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&](FakeDevice& device) {
    return device.destroy_graph(graph)
               ? cudaSuccess
               : device.misuse("destroys a graph that is not there", cudaErrorInvalidValue);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call("cudaGraphExecDestroy", [&](FakeDevice& device) {
    return device.destroy_graph(executable)
               ? cudaSuccess
               : device.misuse("destroys a graph that is not there", cudaErrorInvalidValue);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&](FakeDevice& device) {
    if (!device.has(stream)) {
      return device.misuse("asks whether a stream is captured that is not there",
                           cudaErrorInvalidResourceHandle);
    }
    *status = device.capture_of(stream) != nullptr ? cudaStreamCaptureStatusActive
                                                   : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return call("cudaStreamGetId", [&](FakeDevice& device) {
    if (!device.has(stream) || device.capture_of(stream) != nullptr) {
      device.spoil_capture_of(stream);
      return device.misuse("asks for the id of a stream that is not there, or is captured",
                           cudaErrorStreamCaptureInvalidated);
    }
    *id = reinterpret_cast<std::uintptr_t>(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&](FakeDevice&) {
    std::swap(*mode, capture_mode);
    return cudaSuccess;
  });
}
