// SPDX-License-Identifier: Apache-2.0
#include "comm/bare_nccl.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <stdexcept>

namespace benchmarks {
namespace {

void check(ncclResult_t result, char const* call) {
  if (result != ncclSuccess) {
    throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result));
  }
}
void check(cudaError_t result, char const* call) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
  }
}

}  // namespace

struct BareNccl::State {
  int ranks;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
};

std::string BareNccl::unique_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {id.internal, sizeof(id.internal)};
}

std::string BareNccl::version() {
  int number = 0;
  check(ncclGetVersion(&number), "ncclGetVersion");
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

BareNccl::BareNccl(std::string const& id, int rank, int ranks)
    : state_(std::make_unique<State>(State{.ranks = ranks})) {
  ncclUniqueId own;
  std::memcpy(own.internal, id.data(), sizeof(own.internal));
  check(cudaSetDevice(rank), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(ncclCommInitRank(&state_->communicator, ranks, own, rank), "ncclCommInitRank");
}

BareNccl::~BareNccl() {
  ncclCommDestroy(state_->communicator);
  cudaStreamDestroy(state_->stream);
}

void BareNccl::all_gather(float const* input, float* output, std::size_t count) {
  check(ncclAllGather(input, output, count, ncclFloat32, state_->communicator, state_->stream),
        "ncclAllGather");
}

void BareNccl::all_to_all(float const* input, float* output, std::size_t count) {
  auto const part = count / static_cast<std::size_t>(state_->ranks);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  check(ncclAlltoAll(input, output, part, ncclFloat32, state_->communicator, state_->stream),
        "ncclAlltoAll");
#else
  check(ncclGroupStart(), "ncclGroupStart");
  for (int other = 0; other < state_->ranks; ++other) {
    auto const at = static_cast<std::size_t>(other) * part;
    check(ncclSend(input + at, part, ncclFloat32, other, state_->communicator, state_->stream),
          "ncclSend");
    check(ncclRecv(output + at, part, ncclFloat32, other, state_->communicator, state_->stream),
          "ncclRecv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
#endif
}

void BareNccl::synchronize() {
  check(cudaStreamSynchronize(state_->stream), "cudaStreamSynchronize");
}

}  // namespace benchmarks
