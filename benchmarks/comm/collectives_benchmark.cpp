// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#if MSSTREAM_BENCHMARK_NCCL
#include "comm/bare_nccl.hpp"
#include "comm/ranks.hpp"
#endif

#include <msstream/comm/collectives.hpp>
#include <msstream/tensor/copy.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <vector>

/// Benchmarks of collectives between all GPUs of the machine, back to back on the communicator's
/// group, compared with the same calls of NCCL on a stream. Reports medians over batches, bare and
/// ours by turns: the times of a collective (`bare_us`, `ours_us`, `ratio`), the host's times to
/// issue it (`bare_host_ns`, `ours_host_ns`), and what ours takes more of them than the bare batch
/// before (`extra_host_ns`), with its least and most. The kinds differ in nothing but NCCL's call,
/// so that the difference between their extra times is the accuracy.
namespace benchmarks {

#if MSSTREAM_BENCHMARK_NCCL

namespace {

enum class Kind : std::uint8_t { all_gather, all_to_all };

constexpr int kBatches = 15;

void measure(benchmark::State& state, Kind kind, std::int64_t bytes) {
  using R = ms::Cuda;
  int const ranks = R::device_count();
  auto const count = bytes / static_cast<std::int64_t>(sizeof(float));
  int const per_batch = bytes > (1 << 20) ? 10 : 200;
  auto const id = BareNccl::unique_id();
  std::barrier<> all(ranks);
  RoundTimes bare_times;
  RoundTimes our_times;
  ms::comm::run_as_threads(ranks, [&](ms::comm::World const& world) {
    Leaving const leaving{all};
    auto const device = ms::comm::device_of<R>(world);
    ms::comm::Communicator<R> const ours(device, world);
    BareNccl bare(id, world.rank(), ranks);
    ms::Tensor<float, R> const input(device, {count});
    ms::Tensor<float, R> const output(device, {kind == Kind::all_gather ? count * ranks : count});
    ms::fill_bytes(input, 0);
    ms::fill_bytes(output, 0);
    device.default_group().synchronize();
    RoundTimes own_bare;
    RoundTimes own_ours;
    for (int batch = 0; batch < kBatches + 2; ++batch) {
      time_batch(
          all,
          per_batch,
          own_bare,
          [&] {
            kind == Kind::all_gather
                ? bare.all_gather(input.data(), output.data(), static_cast<std::size_t>(count))
                : bare.all_to_all(input.data(), output.data(), static_cast<std::size_t>(count));
          },
          [&] { bare.synchronize(); });
      time_batch(
          all,
          per_batch,
          own_ours,
          [&] {
            kind == Kind::all_gather ? ms::comm::all_gather(ours, input, output)
                                     : ms::comm::all_to_all(ours, input, output);
          },
          [&] { ours.synchronize(); });
      if (batch < 2) {  // the first ones are for warming up
        own_bare = own_ours = {};
      }
    }
    if (world.rank() == 0) {
      bare_times = own_bare;
      our_times = own_ours;
    }
  });
  double const bare_ns = median(bare_times.device);
  double const our_ns = median(our_times.device);
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(our_ns * 1e-9);
  }
  state.counters["bare_us"] = bare_ns * 1e-3;
  state.counters["ours_us"] = our_ns * 1e-3;
  state.counters["ratio"] = our_ns / bare_ns;
  state.counters["bare_host_ns"] = median(bare_times.host);
  state.counters["ours_host_ns"] = median(our_times.host);
  std::vector<double> extra;
  for (std::size_t batch = 0; batch < our_times.host.size(); ++batch) {
    extra.push_back(our_times.host[batch] - bare_times.host[batch]);
  }
  auto const [least, most] = std::ranges::minmax(extra);
  state.counters["extra_host_ns"] = median(extra);
  state.counters["extra_host_ns_least"] = least;
  state.counters["extra_host_ns_most"] = most;
  state.counters["GBps"] = static_cast<double>(bytes) / our_ns;
}

}  // namespace

void add_cuda_benchmarks() {
  if (ms::Cuda::device_count() < 2) {
    std::cerr << "collectives: expected two GPUs or more\n";
    return;
  }
  benchmark::AddCustomContext("nccl", BareNccl::version());
  for (auto const kind : {Kind::all_gather, Kind::all_to_all}) {
    for (std::int64_t const kib : {64, 1024, 256 * 1024}) {
      add(fmt::format("collectives/cuda/{}/KiB:{}",
                      kind == Kind::all_gather ? "all_gather" : "all_to_all",
                      kib),
          1,
          [=](benchmark::State& state) { measure(state, kind, kib << 10); });
    }
  }
}

#else

void add_cuda_benchmarks() {
  std::cerr << "collectives: this build has not found NCCL\n";
}

#endif

/// There is nothing to compare collectives on the host runtime with.
void add_host_benchmarks() {}

}  // namespace benchmarks
