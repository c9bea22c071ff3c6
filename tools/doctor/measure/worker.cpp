// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/worker.hpp"

#include "cli/options.hpp"
#include "doctor/measure/operation_rate.hpp"

#include <msstream/runtime/host.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>

#if MSSTREAM_CUDA
#include "doctor/measure/cuda_objects_cuda.hpp"
#include "doctor/measure/kernels.hpp"

#include <msstream/runtime/cuda.hpp>
#endif

namespace msstream::doctor {
namespace {

using WorkerClock = std::chrono::steady_clock;

struct WorkerPlan {
  int device = -1;
  int groups = 1;
  std::chrono::milliseconds length{0};
  WorkerClock::time_point started;
};

void tell_parent(std::string_view line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// Waits for the parent process's byte. Returns false if the parent has ended.
bool wait_for_parent() {
  char byte = 0;
  return ::read(STDIN_FILENO, &byte, 1) == 1;
}

/// Runs the loads on a device. Returns whether the parent process wanted all of them.
template <class R, class Nothing, class Kernel>
bool load(Device<R> const& device,
          WorkerPlan const& plan,
          Nothing const& nothing,
          Kernel const& kernel) {
  do_first_operation(device, nothing);
  std::chrono::duration<double, std::milli> const first = WorkerClock::now() - plan.started;
  LoadPlan of_load{.groups = plan.groups, .length = plan.length};
  auto const begin = [&] {
    tell_parent(fmt::format("ready {:.17g}", first.count()));
    return wait_for_parent();
  };
  auto const tell = [](LoadRate const& rate) {
    tell_parent(fmt::format("{:.17g} {:.17g} {:.17g}", rate.per_second, rate.p50_us, rate.p99_us));
    return rate.per_second > 0;
  };
  if (!tell(operation_rate(device, of_load, nothing, begin))) {
    return false;
  }
  of_load.operations_of_batch = 1;
  return tell(operation_rate(device, of_load, kernel, begin));
}

bool load_chosen(WorkerPlan const& plan) {
#if MSSTREAM_CUDA
  if (plan.device >= 0) {
    int multiprocessors = 0;
    check_cuda(
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, plan.device),
        "number of multiprocessors");
    int const blocks = std::max(1, multiprocessors / kKernelsThatFill);
    return load(
        Device<Cuda>(DeviceOptions<Cuda>{.runtime = {.ordinal = plan.device}}),
        plan,
        [](CudaStream stream) { check_cuda(launch_empty(stream), "launch of a kernel"); },
        [blocks](CudaStream stream) {
          constexpr std::uint64_t kNs = std::chrono::nanoseconds(kKernelOfLoad).count();
          check_cuda(launch_busy(stream, blocks, kNs), "launch of a kernel");
        });
  }
#endif
  return load(
      Device<Host>(),
      plan,
      [](auto) {},
      [](HostStream stream) {
        stream.run([] {
          for (auto const until = WorkerClock::now() + kKernelOfLoad; WorkerClock::now() < until;) {
          }
        });
      });
}

}  // namespace

int worker(std::vector<std::string> const& arguments) {
  using cli::parse_option;
  auto const device =
      arguments.size() == 4 ? parse_option<int>(arguments[0], {-1, 1023}) : std::optional<int>();
  auto const groups = device ? parse_option<int>(arguments[1], {1, 64}) : std::nullopt;
  auto const ms = groups ? parse_option<int>(arguments[2], {1, 10'000}) : std::nullopt;
  auto const started =
      ms ? parse_option<std::int64_t>(arguments[3], {0, std::numeric_limits<std::int64_t>::max()})
         : std::nullopt;
  if (!started) {
    throw cli::UsageError(
        "worker: expected the number of a GPU or -1, groups, ms and the start in ns");
  }
  return load_chosen({*device,
                      *groups,
                      std::chrono::milliseconds(*ms),
                      WorkerClock::time_point(std::chrono::nanoseconds(*started))})
             ? 0
             : 1;
}

}  // namespace msstream::doctor
