// SPDX-License-Identifier: Apache-2.0
// Launches small kernels: launches COUNT eager|graph. Prints the ns that the machine takes for
// gettid() and for a clock, and last the host's ns for a launch: the median of five rounds.
#include <cuda_runtime.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

__global__ void add_one(float* values, int count) {
  int const at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) {
    values[at] += 1.0F;
  }
}

void check(cudaError_t code) {
  if (code != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
    std::exit(1);
  }
}

template <class Call>
double ns_of(int count, Call call) {
  auto const begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    call();
  }
  std::chrono::duration<double, std::nano> const ns = std::chrono::steady_clock::now() - begin;
  return ns.count() / count;
}

int main(int arguments, char** argument) {
  int const count = arguments > 1 ? std::atoi(argument[1]) : 100000;
  bool const graph = arguments > 2 && std::string(argument[2]) == "graph";
  float* values = nullptr;
  check(cudaMalloc(&values, 1024 * sizeof(float)));
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  constexpr int kNodes = 100;
  cudaGraphExec_t ready = nullptr;
  if (graph) {
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    for (int node = 0; node < kNodes; ++node) {
      add_one<<<4, 256, 0, first>>>(values, 1024);
    }
    check(cudaStreamEndCapture(first, &captured));
    check(cudaGraphInstantiate(&ready, captured, 0));
  }
  auto const run = [&](int launches) {
    if (graph) {
      for (int launch = 0; launch < launches / kNodes; ++launch) {
        check(cudaGraphLaunch(ready, first));
      }
    } else {
      for (int launch = 0; launch < launches; ++launch) {
        add_one<<<4, 256, 0, first>>>(values, 1024);
      }
    }
    check(cudaDeviceSynchronize());
  };
  run(1000);
  constexpr int kRounds = 5;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rounds.push_back(ns_of(1, [&] { run(count / kRounds); }) / (count / kRounds));
  }
  std::sort(rounds.begin(), rounds.end());
  // One wait of another stream, whose event is used again.
  for (int round = 0; round < 3; ++round) {
    check(cudaEventRecord(event, first));
    check(cudaStreamWaitEvent(second, event, 0));
    add_one<<<4, 256, 0, second>>>(values, 1024);
  }
  check(cudaDeviceSynchronize());
  std::printf("gettid %.1f\n", ns_of(10000, [] { syscall(SYS_gettid); }));
  timespec time{};
  std::printf("clock %.1f\n", ns_of(10000, [&] { clock_gettime(CLOCK_REALTIME, &time); }));
  std::printf("%.1f\n", rounds[kRounds / 2]);
}
