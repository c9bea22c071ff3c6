// SPDX-License-Identifier: Apache-2.0
#include "sm_parts_cuda.hpp"

#include "driver_call_cuda.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/error.hpp>
#include <msstream/runtime/cuda.hpp>

#include <cstddef>

namespace msstream::detail {

namespace {

constexpr unsigned kSinceGreenContexts = 12050;  // the first version with green-context streams

bool find_all(GreenContextCalls& calls) {
  auto const find = [](auto& call, char const* name) {
    return find_driver_call(call, name, kSinceGreenContexts);
  };
  return find(calls.get_resource, "cuDeviceGetDevResource") &&
         find(calls.split, "cuDevSmResourceSplitByCount") &&
         find(calls.describe, "cuDevResourceGenerateDesc") &&
         find(calls.create, "cuGreenCtxCreate") && find(calls.destroy, "cuGreenCtxDestroy") &&
         find(calls.create_stream, "cuGreenCtxStreamCreate") &&
         find(calls.error_string, "cuGetErrorString");
}

}  // namespace

CudaSmParts::CudaSmParts(int ordinal) : ordinal_(ordinal) {
  CUdevResource device{};
  if (find_all(calls_) &&
      calls_.get_resource(ordinal_, &device, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS) {
    unsigned parts = 1;
    if (calls_.split(nullptr, &parts, &device, nullptr, 0, 1) == CUDA_SUCCESS) {
      most_ = static_cast<int>(parts);
    }
  }
  cudaGetLastError();
}

CudaSmParts::~CudaSmParts() {
  for (auto const& [split, contexts] : contexts_) {
    for (auto* const context : contexts) {
      calls_.destroy(context);
    }
  }
}

CUstream CudaSmParts::create_stream(SmPartition partition, int level) {
  require(partition.parts >= 1 && partition.parts <= most_,
          "cuda runtime: {} partitions of the multiprocessors; expected 1 to {}{}",
          partition.parts,
          most_,
          most_ == 1 ? ", since this device, or its driver, cannot split them" : "");
  require(partition.index >= 0 && partition.index < partition.parts,
          "cuda runtime: partition {} of {}; expected 0 to {}",
          partition.index,
          partition.parts,
          partition.parts - 1);
  require(partition.spared == 0 || most_ > 1,
          "cuda runtime: {} spared multiprocessors; expected 0, since this device, or its driver, "
          "cannot split them",
          partition.spared);
  std::lock_guard const guard(mutex_);
  auto& contexts = contexts_[{partition.parts, partition.spared}];
  if (contexts.empty()) {
    contexts = make(partition);
  }
  CUstream stream = nullptr;
  check(calls_.create_stream(&stream,
                             contexts[static_cast<std::size_t>(partition.index)],
                             CU_STREAM_NON_BLOCKING,
                             level),
        "cuGreenCtxStreamCreate");
  return stream;
}

void CudaSmParts::check(CUresult code, char const* call) const {
  if (code != CUDA_SUCCESS) {
    char const* message = nullptr;
    calls_.error_string(code, &message);
    throw CudaError(code, message == nullptr ? "unknown error" : message, call);
  }
}

CUdevResource CudaSmParts::all() const {
  CUdevResource device{};
  check(calls_.get_resource(ordinal_, &device, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  return device;
}

std::vector<CUdevResource> CudaSmParts::split(unsigned parts, unsigned spared) const {
  auto const device = all();
  auto const most = device.sm.smCount > spared ? (device.sm.smCount - spared) / parts : 0;
  // Tries smaller parts until they fit, because the device rounds a size up to one that it has.
  for (auto each = most; each > 0; --each) {
    std::vector<CUdevResource> made(parts);
    CUdevResource rest{};
    auto count = parts;
    auto const code = calls_.split(made.data(), &count, &device, &rest, 0, each);
    if (code == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION) {
      continue;  // too few multiprocessors for one part
    }
    check(code, "cuDevSmResourceSplitByCount");
    if (count == parts && rest.sm.smCount >= spared) {
      return made;
    }
  }
  return {};
}

std::vector<CUgreenCtx> CudaSmParts::make(SmPartition partition) const {
  auto split =
      this->split(static_cast<unsigned>(partition.parts), static_cast<unsigned>(partition.spared));
  require(!split.empty(),
          "cuda runtime: {} spared multiprocessors and {} parts of the others; the device has {}, "
          "too few for that",
          partition.spared,
          partition.parts,
          all().sm.smCount);
  std::vector<CUgreenCtx> contexts;
  contexts.reserve(split.size());
  try {
    for (auto& part : split) {
      CUdevResourceDesc described{};
      check(calls_.describe(&described, &part, 1), "cuDevResourceGenerateDesc");
      CUgreenCtx context{};
      check(calls_.create(&context, described, ordinal_, CU_GREEN_CTX_DEFAULT_STREAM),
            "cuGreenCtxCreate");
      contexts.push_back(context);
    }
  } catch (...) {
    for (auto* const context : contexts) {
      calls_.destroy(context);
    }
    throw;
  }
  return contexts;
}

}  // namespace msstream::detail
