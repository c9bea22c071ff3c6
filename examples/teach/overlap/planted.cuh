// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

/// The parts that all programs with a planted cause use: kernels of a known length, the
/// measurement.
namespace planted {

inline void check(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "error: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
  }
}
#define PLANTED_CHECK(call) ::planted::check((call), #call)

/// Keeps a thread busy for `ns`.
static __device__ void hold_for(unsigned long long ns) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

/// Keeps its blocks busy for `ns`, however many other kernels run.
static __global__ void spin(unsigned long long ns) {
  hold_for(ns);
}

/// Work of `us` in `blocks` blocks of 256 threads, which leave most of a large GPU free if they are
/// few.
inline void work(
    cudaStream_t stream, int us, int blocks = 16, int threads = 256, std::size_t shared_bytes = 0) {
  spin<<<blocks, threads, shared_bytes, stream>>>(static_cast<unsigned long long>(us) * 1000);
  PLANTED_CHECK(cudaGetLastError());
}

/// The host computes for `us`, without a call of CUDA.
inline void busy(int us) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
  while (std::chrono::steady_clock::now() < end) {
  }
}

inline cudaStream_t new_stream(int priority = 0) {
  cudaStream_t stream = nullptr;
  PLANTED_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return stream;
}

inline cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  PLANTED_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

/// Host memory of `bytes`, which the driver pins or not. Never freed: the program ends soon.
inline void* host_memory(std::size_t bytes, bool pinned) {
  void* memory = nullptr;
  if (pinned) {
    PLANTED_CHECK(cudaMallocHost(&memory, bytes));
  } else {
    memory = std::malloc(bytes);
  }
  std::memset(memory, 1, bytes);
  return memory;
}

inline void* device_memory(std::size_t bytes) {
  void* memory = nullptr;
  PLANTED_CHECK(cudaMalloc(&memory, bytes));
  PLANTED_CHECK(cudaMemset(memory, 0, bytes));
  return memory;
}

inline int sms() {
  int count = 0;
  PLANTED_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

struct Options {
  std::string mode;
  bool fixed = false;
  int steps = 0;  ///< 0: as many as the program wants
};

inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    if (argument == "--fixed") {
      options.fixed = true;
    } else if (argument == "--steps" && i + 1 < argc) {
      options.steps = std::atoi(argv[++i]);
    } else if (argument.rfind("--", 0) != 0) {
      options.mode = argument;
    } else {
      std::fprintf(stderr, "usage: %s [mode] [--fixed] [--steps N]\n", argv[0]);
      std::exit(2);
    }
  }
  return options;
}

/// Prints the time of a step as one line of JSON.
inline void print(Options const& options, char const* program, double step_us) {
  std::printf("{\"program\": \"%s\", \"mode\": \"%s\", \"fixed\": %s, \"step_us\": %.2f}\n",
              program,
              options.mode.c_str(),
              options.fixed ? "true" : "false",
              step_us);
}

/// Issues `steps` steps back to back, several times, and prints the median time of a step as one
/// line of JSON. Only the last time is inside the NVTX range "measured", for the recorder.
template <class Step>
void measure(Options const& options, char const* program, int steps, Step&& step, int rounds = 7) {
  if (options.steps > 0) {
    steps = options.steps;
  }
  for (int i = 0; i < 3; ++i) {
    step();
  }
  PLANTED_CHECK(cudaDeviceSynchronize());
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    if (round + 1 == rounds) {
      nvtxRangePushA("measured");
    }
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) {
      step();
    }
    PLANTED_CHECK(cudaDeviceSynchronize());
    auto const time = std::chrono::steady_clock::now() - begin;
    if (round + 1 == rounds) {
      nvtxRangePop();
    }
    times.push_back(std::chrono::duration<double, std::micro>(time).count() / steps);
  }
  std::sort(times.begin(), times.end());
  print(options, program, times[times.size() / 2]);
}

struct Mode {
  char const* name;
  void (*run)(Options const&);
};

/// Runs the mode that the command line names, or lists all modes. Returns the program's status.
template <std::size_t N>
int run_mode(int argc, char** argv, Mode const (&modes)[N]) {
  auto const options = parse(argc, argv);
  for (auto const& mode : modes) {
    if (options.mode == mode.name) {
      mode.run(options);
      return 0;
    }
  }
  for (auto const& mode : modes) {
    std::printf("%s\n", mode.name);
  }
  return options.mode.empty() ? 0 : 2;
}

}  // namespace planted
