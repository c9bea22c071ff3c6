// SPDX-License-Identifier: Apache-2.0
#include "parts_cuda.hpp"

#include "cuda_success.hpp"
#include "runtime/cuda/captures_cuda.hpp"
#include "runtime/cuda/driver_call_cuda.hpp"
#include "runtime/cuda/sm_parts_cuda.hpp"

#include <msstream/base/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace benchmarks {

namespace ms = msstream;

namespace {

constexpr unsigned kSinceGreenContexts = 12050;  // the first version with green-context streams

void find(auto& call, char const* name) {
  if (!ms::detail::find_driver_call(call, name, kSinceGreenContexts)) {
    throw ms::CudaError(CUDA_ERROR_NOT_SUPPORTED, "the driver lacks this function", name);
  }
}

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept { cudaGraphDestroy(graph); }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

/// Returns a copy of the graph that the stream is captured into.
OwnedGraph copy_of_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t captured = nullptr;
#if CUDART_VERSION >= 13000
  auto const told = cudaStreamGetCaptureInfo(stream, &status, &id, &captured);
#else
  auto const told = cudaStreamGetCaptureInfo_v2(stream, &status, &id, &captured);
#endif
  require_success(told, "cudaStreamGetCaptureInfo");
  if (status != cudaStreamCaptureStatusActive) {
    return nullptr;  // the runtime's end_capture() throws
  }
  cudaGraph_t copy = nullptr;
  require_success(cudaGraphClone(&copy, captured), "cudaGraphClone");
  return OwnedGraph(copy);
}

}  // namespace

struct CudaInParts::Parts {
  ms::detail::GreenContextCalls calls{};
  std::vector<CUgreenCtx> contexts;
  std::vector<int> multiprocessors;
  int all = 0;

  Parts() = default;
  Parts(Parts const&) = delete;
  Parts& operator=(Parts const&) = delete;
  ~Parts() {
    for (auto* const context : contexts) {
      calls.destroy(context);
    }
  }

  void find_calls() {
    find(calls.get_resource, "cuDeviceGetDevResource");
    find(calls.split, "cuDevSmResourceSplitByCount");
    find(calls.describe, "cuDevResourceGenerateDesc");
    find(calls.create, "cuGreenCtxCreate");
    find(calls.destroy, "cuGreenCtxDestroy");
    find(calls.create_stream, "cuGreenCtxStreamCreate");
    find(calls.error_string, "cuGetErrorString");
  }
  void check(CUresult code, char const* call) const {
    if (code != CUDA_SUCCESS) {
      char const* message = nullptr;
      calls.error_string(code, &message);
      throw ms::CudaError(code, message == nullptr ? "unknown error" : message, call);
    }
  }
  void divide(CUdevice device, int first_part) {
    CUdevResource whole{};
    check(calls.get_resource(device, &whole, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
    CUdevResource first{};
    CUdevResource rest{};
    unsigned count = 1;
    check(calls.split(&first, &count, &whole, &rest, 0, static_cast<unsigned>(first_part)),
          "cuDevSmResourceSplitByCount");
    add(device, first);
    add(device, rest);
  }
  void add(CUdevice device, CUdevResource& part) {
    CUdevResourceDesc described{};
    check(calls.describe(&described, &part, 1), "cuDevResourceGenerateDesc");
    CUgreenCtx context{};
    check(calls.create(&context, described, device, CU_GREEN_CTX_DEFAULT_STREAM),
          "cuGreenCtxCreate");
    contexts.push_back(context);
    multiprocessors.push_back(static_cast<int>(part.sm.smCount));
  }
};

CudaInParts::CudaInParts(Options const& options)
    : Cuda(Cuda::Options{}), parts_(std::make_unique<Parts>()) {
  make_current();
  require_success(cudaDeviceGetAttribute(&parts_->all, cudaDevAttrMultiProcessorCount, ordinal()),
                  "cudaDeviceGetAttribute");
  if (!options.first_parts.empty()) {
    parts_->find_calls();
  }
  for (int const first_part : options.first_parts) {
    parts_->divide(ordinal(), first_part);
  }
}

CudaInParts::~CudaInParts() = default;

CudaInParts::native_stream CudaInParts::create_stream(ms::StreamPriority priority) {
  return create_stream(priority, {});
}

CudaInParts::native_stream CudaInParts::create_stream(ms::StreamPriority priority,
                                                      ms::SmPartition partition) {
  if (partition.is_all()) {
    return Cuda::create_stream(priority);
  }
  if (priority != ms::StreamPriority::normal || partition.spared != 0) {
    throw std::invalid_argument("a stream on a part has normal priority, and spares nothing");
  }
  make_current();
  CUstream stream = nullptr;
  auto* const context = parts_->contexts.at(static_cast<std::size_t>(partition.index));
  parts_->check(parts_->calls.create_stream(&stream, context, CU_STREAM_NON_BLOCKING, 0),
                "cuGreenCtxStreamCreate");
  return stream;
}

int CudaInParts::most_sm_parts() const noexcept {
  return parts_->contexts.empty() ? 1 : static_cast<int>(parts_->contexts.size());
}

CudaInParts::native_graph CudaInParts::end_capture(native_stream stream) {
  auto const copy = copy_of_captured(stream);
  auto* const graph = Cuda::end_capture(stream);
  std::unique_ptr<ms::detail::CudaGraph> owned(graph);
  cudaGraphExec_t executable = nullptr;
  require_success(
      cudaGraphInstantiate(&executable, copy.get(), cudaGraphInstantiateFlagUseNodePriority),
      "cudaGraphInstantiate");
  cudaGraphExecDestroy(std::exchange(owned->executable, executable));
  require_success(cudaGraphUpload(executable, stream), "cudaGraphUpload");
  require_success(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return owned.release();
}

std::string CudaInParts::description() const {
  cudaDeviceProp properties{};
  int driver = 0;
  require_success(cudaGetDeviceProperties(&properties, ordinal()), "cudaGetDeviceProperties");
  require_success(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return std::string(properties.name) + ", " + std::to_string(parts_->all) +
         " multiprocessors, a driver for CUDA " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

int CudaInParts::multiprocessors() const noexcept {
  return parts_->all;
}

int CudaInParts::multiprocessors_of(int index) const {
  return parts_->multiprocessors.at(static_cast<std::size_t>(index));
}

}  // namespace benchmarks
