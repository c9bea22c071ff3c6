// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/worker.hpp"

#include "cli/options.hpp"
#include "doctor/measure/operation_rate.hpp"

#include <msstream/runtime/host.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#if MSSTREAM_CUDA
#include "doctor/measure/cuda_objects_cuda.hpp"
#include "doctor/measure/kernels.hpp"

#include <msstream/runtime/cuda.hpp>
#endif

namespace msstream::doctor {
namespace {

/// Tells the parent process that all is warm, and waits for its byte. Returns false if the parent
/// has ended.
bool wait_for_parent() {
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  return ::read(STDIN_FILENO, &byte, 1) == 1;
}

double rate_of(int device, int groups, std::chrono::milliseconds length) {
#if MSSTREAM_CUDA
  if (device >= 0) {
    return operation_rate(
        Device<Cuda>(DeviceOptions<Cuda>{.runtime = {.ordinal = device}}),
        groups,
        length,
        [](CudaStream stream) { check_cuda(launch_empty(stream), "launch of a kernel"); },
        wait_for_parent);
  }
#endif
  static_cast<void>(device);
  return operation_rate(
      Device<Host>(), groups, length, [](auto) {}, wait_for_parent);
}

}  // namespace

int worker(std::vector<std::string> const& arguments) {
  using cli::parse_option;
  auto const device =
      arguments.size() == 3 ? parse_option<int>(arguments[0], {-1, 1023}) : std::optional<int>();
  auto const groups = device ? parse_option<int>(arguments[1], {1, 64}) : std::nullopt;
  auto const ms = groups ? parse_option<int>(arguments[2], {1, 10'000}) : std::nullopt;
  if (!ms) {
    throw cli::UsageError("worker: expected the number of a GPU or -1, groups and ms");
  }
  auto const rate = rate_of(*device, *groups, std::chrono::milliseconds(*ms));
  fmt::print("{:.17g}\n", rate);
  return rate > 0 ? 0 : 1;
}

}  // namespace msstream::doctor
