// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/measure_device_cuda.hpp"

#include "doctor/measure/cuda_objects_cuda.hpp"
#include "doctor/measure/kernels.hpp"
#include "doctor/measure/measure_issue.hpp"
#include "doctor/measure/median.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/cuda.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace msstream::doctor {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRepetitions = 3;

double gb_per_s(std::size_t bytes, double ms) {
  return static_cast<double>(bytes) / std::max(ms, 1e-6) / 1e6;
}

/// Measures times on the device by events. `first` and `second` are streams for work that may run
/// at once.
class DeviceClock {
 public:
  /// Returns the ms from the begin of the work of both streams to its end. `work` enqueues it.
  template <class Work>
  [[nodiscard]] double ms_of(Work const& work) const {
    begin_.record(first);
    wait(second, begin_);
    work();
    joined_.record(second);
    wait(first, joined_);
    end_.record(first);
    check_cuda(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return ms;
  }
  /// Returns the least of several times.
  template <class Work>
  [[nodiscard]] double least_ms_of(Work const& work) const {
    auto least = ms_of(work);
    for (int i = 1; i < kRepetitions; ++i) {
      least = std::min(least, ms_of(work));
    }
    return least;
  }

  OwnedStream first;
  OwnedStream second;

 private:
  static void wait(OwnedStream const& stream, OwnedEvent const& event) {
    check_cuda(cudaStreamWaitEvent(stream.get(), event.get(), 0), "cudaStreamWaitEvent");
  }

  OwnedEvent begin_;
  OwnedEvent joined_;
  OwnedEvent end_;
};

/// Lets this device access the memory of another one, if no other code has done so.
class PeerAccess {
 public:
  explicit PeerAccess(int other) : other_(other) {
    auto const code = cudaDeviceEnablePeerAccess(other, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled) {
      static_cast<void>(cudaGetLastError());
      return;
    }
    check_cuda(code, "cudaDeviceEnablePeerAccess");
    is_mine_ = true;
  }
  PeerAccess(PeerAccess const&) = delete;
  PeerAccess& operator=(PeerAccess const&) = delete;
  ~PeerAccess() {
    if (is_mine_) {
      static_cast<void>(cudaDeviceDisablePeerAccess(other_));
    }
  }

 private:
  int other_;
  bool is_mine_ = false;
};

/// Makes a device current, and then the former one again.
class CurrentDevice {
 public:
  CurrentDevice(int device, int former) : former_(former) {
    check_cuda(cudaSetDevice(device), "cudaSetDevice");
  }
  CurrentDevice(CurrentDevice const&) = delete;
  CurrentDevice& operator=(CurrentDevice const&) = delete;
  ~CurrentDevice() { static_cast<void>(cudaSetDevice(former_)); }

 private:
  int former_;
};

class DeviceMeasuring {
 public:
  DeviceMeasuring(MeasurePlan const& plan, std::function<void(std::string_view)> const& begin)
      : plan_(plan), begin_(begin) {
    out_.device = plan.device;
    out_.link_gb_per_s = plan.link_gb_per_s;
    out_.max_connections_set = plan.max_connections_set;
  }

  DeviceMeasures run() {
    attempt("context", "use of the device", [&] {
      check_cuda(cudaSetDevice(plan_.device), "cudaSetDevice");
      check_cuda(cudaFree(nullptr), "cudaFree");  // makes the context
      clock_ = std::make_unique<DeviceClock>();
      // Loads the kernels, which takes longer than they run.
      check_cuda(launch_empty(clock_->first.get()), "launch of a kernel");
      check_cuda(launch_wait(clock_->first.get(), 1000, nullptr), "launch of a kernel");
      clock_->first.synchronize();
    });
    attempt("pinned-h2d", "copies of pinned memory", [&] { measure_pinned(); });
    attempt("pageable-h2d", "copies of pageable memory", [&] { measure_pageable(); });
    attempt("device-copy", "copies on the device", [&] { measure_device_copy(); });
    attempt("kernel-overlap", "kernels on two streams", [&] { measure_kernels(); });
    attempt("copy-overlap", "copies beside a kernel", [&] { measure_copies(); });
    attempt("hardware-queues", "streams that run at once", [&] { measure_streams(); });
    attempt("launch", "launches", [&] { measure_launches(); });
    attempt("issue", "issue() and replays", [&] { measure_issue(); });
    attempt("peer", "copies between GPUs", [&] { measure_peers(); });
    clock_.reset();
    return std::move(out_);
  }

 private:
  /// Runs a check. Keeps its failure, and whether the device can still be used after it.
  template <class Check>
  void attempt(char const* id, char const* thing, Check const& check) {
    if (is_lost_) {
      return;
    }
    begin_(thing);
    try {
      check();
    } catch (std::exception const& error) {
      out_.failures.push_back({id, thing, error.what()});
      is_lost_ = clock_ == nullptr || cudaStreamSynchronize(clock_->first.get()) != cudaSuccess;
      static_cast<void>(cudaGetLastError());
    }
  }

  void enqueue_copy(OwnedStream const& stream, void* to, void const* from, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, plan_.bytes, kind, stream.get()), "cudaMemcpyAsync");
  }

  void measure_pinned() {
    PinnedBytes const host(plan_.bytes);
    DeviceBytes const device(plan_.bytes);
    out_.pinned_h2d_gb_per_s = gb_per_s(plan_.bytes, clock_->least_ms_of([&] {
      enqueue_copy(clock_->first, device.get(), host.get(), cudaMemcpyHostToDevice);
    }));
    out_.pinned_d2h_gb_per_s = gb_per_s(plan_.bytes, clock_->least_ms_of([&] {
      enqueue_copy(clock_->first, host.get(), device.get(), cudaMemcpyDeviceToHost);
    }));
  }

  /// Returns the GB/s of a copy that blocks the host.
  [[nodiscard]] double blocking_gb_per_s(void* to, void const* from, cudaMemcpyKind kind) const {
    std::vector<double> ms;
    for (int i = 0; i < kRepetitions; ++i) {
      auto const begin = Clock::now();
      check_cuda(cudaMemcpy(to, from, plan_.bytes, kind), "cudaMemcpy");
      ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    }
    return gb_per_s(plan_.bytes, std::ranges::min(ms));
  }

  void measure_pageable() {
    std::vector<std::byte> host(plan_.bytes, std::byte{1});
    DeviceBytes const device(plan_.bytes);
    out_.pageable_h2d_gb_per_s =
        blocking_gb_per_s(device.get(), host.data(), cudaMemcpyHostToDevice);
    out_.pageable_d2h_gb_per_s =
        blocking_gb_per_s(host.data(), device.get(), cudaMemcpyDeviceToHost);
  }

  void measure_device_copy() {
    DeviceBytes const from(plan_.bytes);
    DeviceBytes const to(plan_.bytes);
    // Each byte is read and written.
    out_.memory_gb_per_s = gb_per_s(2 * plan_.bytes, clock_->least_ms_of([&] {
      enqueue_copy(clock_->first, to.get(), from.get(), cudaMemcpyDeviceToDevice);
    }));
  }

  void measure_kernels() {
    auto const run = [&](OwnedStream const& stream) {
      check_cuda(launch_wait(stream.get(), plan_.kernel_ns, nullptr), "launch of a kernel");
    };
    auto const alone = clock_->least_ms_of([&] { run(clock_->first); });
    auto const both = clock_->least_ms_of([&] {
      run(clock_->first);
      run(clock_->second);
    });
    out_.kernels_hidden = hidden_share(alone, alone, both);
  }

  void measure_copies() {
    PinnedBytes const input(plan_.bytes);
    PinnedBytes const output(plan_.bytes);
    DeviceBytes const uploaded(plan_.bytes);
    DeviceBytes const downloaded(plan_.bytes);
    auto const upload = [&] {
      enqueue_copy(clock_->second, uploaded.get(), input.get(), cudaMemcpyHostToDevice);
    };
    auto const download = [&] {
      enqueue_copy(clock_->first, output.get(), downloaded.get(), cudaMemcpyDeviceToHost);
    };
    auto const up = clock_->least_ms_of(upload);
    auto const down = clock_->least_ms_of(download);
    // A kernel as long as the copy shows best whether they run at once.
    auto const ns = static_cast<std::uint64_t>(std::clamp(up, 0.1, 100.0) * 1e6);
    auto const compute = [&] {
      check_cuda(launch_wait(clock_->first.get(), ns, nullptr), "launch of a kernel");
    };
    auto const kernel = clock_->least_ms_of(compute);
    auto const beside = clock_->least_ms_of([&] {
      compute();
      upload();
    });
    out_.copy_hidden = hidden_share(kernel, up, beside);
    auto const both = clock_->least_ms_of([&] {
      download();
      upload();
    });
    out_.copies_hidden = hidden_share(up, down, both);
  }

  /// Each stream gets two kernels. In a hardware queue that streams share, the second kernel of a
  /// stream keeps back the first ones of the streams behind it, so that at most one stream of each
  /// queue runs its first kernel: the first kernels that run at once are as many as the queues.
  void measure_streams() {
    auto const count = static_cast<std::size_t>(plan_.streams);
    std::vector<OwnedStream> streams(count);
    std::vector<Interval> times(2 * count);
    auto const bytes = times.size() * sizeof(Interval);
    PinnedBytes const host(bytes);
    DeviceBytes const device(bytes);
    auto const& first = clock_->first;
    check_cuda(cudaMemsetAsync(device.get(), 0, bytes, first.get()), "cudaMemsetAsync");
    first.synchronize();
    auto* const written = static_cast<Interval*>(device.get());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t kernel = 0; kernel < 2; ++kernel) {
        check_cuda(
            launch_wait(streams[i].get(), 2 * plan_.kernel_ns, &written[kernel * count + i].begin),
            "launch of a kernel");
      }
    }
    for (auto const& stream : streams) {
      stream.synchronize();
    }
    check_cuda(
        cudaMemcpyAsync(host.get(), device.get(), bytes, cudaMemcpyDeviceToHost, first.get()),
        "cudaMemcpyAsync");
    first.synchronize();
    auto const* const read = static_cast<Interval const*>(host.get());
    out_.streams_at_once = most_at_once({read, read + count});
    out_.streams_tried = plan_.streams;
  }

  void measure_launches() {
    out_.launch_us = median_us_of_calls(
        kCallsOfBatch,
        [&] { check_cuda(launch_empty(clock_->first.get()), "launch of a kernel"); },
        [&] { clock_->first.synchronize(); });
  }

  void measure_issue() {
    Device<Cuda> const device(DeviceOptions<Cuda>{.runtime = {.ordinal = plan_.device}});
    auto const launch = [](CudaStream stream) {
      check_cuda(launch_empty(stream), "launch of a kernel");
    };
    out_.issue_us = measure_issue_us(device, launch);
    out_.replay_us = measure_replay_us(device, launch);
    out_.captured_operations = kCapturedOperations;
  }

  void measure_peers() {
    int count = 0;
    check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    auto const begin = Clock::now();
    for (int other = 0; other < count; ++other) {
      if (other == plan_.device) {
        continue;
      }
      int access = 0;
      check_cuda(cudaDeviceCanAccessPeer(&access, plan_.device, other), "cudaDeviceCanAccessPeer");
      out_.peers.push_back({other, access != 0});
      if (Clock::now() - begin < plan_.limit_of_peers) {
        out_.peers.back().gb_per_s = peer_gb_per_s(other, access != 0);
      }
    }
  }

  [[nodiscard]] double peer_gb_per_s(int other, bool has_access) {
    std::optional<PeerAccess> access;
    if (has_access) {
      access.emplace(other);
    }
    DeviceBytes const from(plan_.bytes);
    std::optional<DeviceBytes> to;
    {
      CurrentDevice const current(other, plan_.device);
      to.emplace(plan_.bytes);
    }
    return gb_per_s(plan_.bytes, clock_->least_ms_of([&] {
      check_cuda(cudaMemcpyPeerAsync(
                     to->get(), other, from.get(), plan_.device, plan_.bytes, clock_->first.get()),
                 "cudaMemcpyPeerAsync");
    }));
  }

  MeasurePlan const& plan_;
  std::function<void(std::string_view)> const& begin_;
  std::unique_ptr<DeviceClock> clock_;
  DeviceMeasures out_;
  bool is_lost_ = false;
};

}  // namespace

DeviceMeasures measure_device(MeasurePlan const& plan,
                              std::function<void(std::string_view)> const& begin) {
  return DeviceMeasuring(plan, begin).run();
}

}  // namespace msstream::doctor
