// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/device_measures.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace msstream::doctor {
namespace {

class MeasureLines {
 public:
  explicit MeasureLines(DeviceMeasures const& measures) : measures_(measures) {}

  Lines take() {
    add_copies();
    add_peers();
    add_launches();
    add_overlap();
    for (auto const& failure : measures_.failures) {
      auto line = line_of(failure.id, failure.thing);
      line.value = "failed";
      lines_.push_back(judged(std::move(line),
                              Level::bad,
                              fmt::format("{}. Programs would fail alike: nvidia-smi and the "
                                          "kernel's log (dmesg, for Xid) may say more.",
                                          failure.message)));
    }
    return std::move(lines_);
  }

 private:
  [[nodiscard]] Line line_of(std::string id, std::string thing) const {
    Line line{Section::device_measured, std::move(id), std::move(thing)};
    line.device = measures_.device;
    return line;
  }
  void add(Line line, Level level, std::string advice) {
    lines_.push_back(level == Level::ok && advice.empty()
                         ? std::move(line)
                         : judged(std::move(line), level, std::move(advice)));
  }

  void add_pinned(char const* id, char const* thing, std::optional<double> measured) {
    if (!measured) {
      return;
    }
    // Without a known link, slower than PCI Express 3.0 with 16 lanes is slow.
    double const expected = measures_.link_gb_per_s > 0 ? measures_.link_gb_per_s : 16;
    auto line = with_quantity(line_of(id, thing), {*measured, "GB/s"});
    bool const is_slow = *measured < 0.55 * expected;
    if (measures_.link_gb_per_s > 0) {
      line.value += fmt::format(" of {}", text_of({measures_.link_gb_per_s, "GB/s"}));
    }
    add(std::move(line),
        is_slow ? Level::slow : Level::ok,
        is_slow ? "The link carries more. Bind the process to the NUMA node of the GPU (numactl), "
                  "end other copies, and look at the slot (nvidia-smi -q -d PCIE)."
                : "");
  }

  void add_pageable(char const* id,
                    char const* thing,
                    std::optional<double> measured,
                    std::optional<double> pinned) {
    if (!measured) {
      return;
    }
    auto line = with_quantity(line_of(id, thing), {*measured, "GB/s"});
    bool const is_slower = pinned && *measured < 0.8 * *pinned;
    add(std::move(line),
        is_slower ? Level::note : Level::ok,
        is_slower ? fmt::format("{} of the speed of pinned memory, and the host waits. Read "
                                "batches into PinnedArray, or let a DeviceLoader upload them.",
                                text_of({100 * *measured / *pinned, "%"}))
                  : "");
  }

  void add_copies() {
    add_pinned("pinned-h2d", "pinned memory, host to device", measures_.pinned_h2d_gb_per_s);
    add_pinned("pinned-d2h", "pinned memory, device to host", measures_.pinned_d2h_gb_per_s);
    add_pageable("pageable-h2d",
                 "pageable memory, host to device",
                 measures_.pageable_h2d_gb_per_s,
                 measures_.pinned_h2d_gb_per_s);
    add_pageable("pageable-d2h",
                 "pageable memory, device to host",
                 measures_.pageable_d2h_gb_per_s,
                 measures_.pinned_d2h_gb_per_s);
    if (measures_.memory_gb_per_s) {
      lines_.push_back(with_quantity(line_of("device-copy", "memory of the device, copied"),
                                     {*measures_.memory_gb_per_s, "GB/s"}));
    }
  }

  void add_peers() {
    for (auto const& peer : measures_.peers) {
      auto line = line_of("peer", fmt::format("copy to GPU {}", peer.other));
      line.value = "not measured";
      if (peer.gb_per_s) {
        line = with_quantity(std::move(line), {*peer.gb_per_s, "GB/s"});
      }
      line.value += peer.has_access ? ", direct" : ", through the host";
      if (!peer.has_access) {
        add(std::move(line),
            Level::note,
            "The GPUs cannot access each other: collectives pass through the host. MIG, virtual "
            "machines and settings of the firmware (ACS, IOMMU) prevent it.");
      } else {
        bool const is_slow = peer.gb_per_s && *peer.gb_per_s < 5;
        add(std::move(line),
            is_slow ? Level::slow : Level::ok,
            is_slow ? "Direct copies should be faster than 5 GB/s. ACS of the PCI Express "
                      "switches sends them through the processor: turn it off in the firmware."
                    : "");
      }
    }
  }

  void add_launches() {
    if (measures_.launch_us) {
      auto const us = *measures_.launch_us;
      auto line = with_quantity(line_of("launch", "launch of a kernel"), {us, "µs"});
      add(std::move(line),
          us <= 6    ? Level::ok
          : us <= 12 ? Level::note
                     : Level::slow,
          us <= 6 ? ""
                  : "An idle host of 2024 takes 2 to 4 µs. A tool that is attached, other programs "
                    "or a low frequency of the processor cost time; captured steps launch once.");
    }
    if (measures_.issue_us && measures_.launch_us) {
      auto const added = std::max(0.0, *measures_.issue_us - *measures_.launch_us);
      auto line =
          with_quantity(line_of("issue", "issue() with a launch"), {*measures_.issue_us, "µs"});
      line.value += fmt::format(", {} more than the launch", text_of({added, "µs"}));
      add(std::move(line),
          added <= 2 ? Level::ok : Level::slow,
          added <= 2 ? ""
                     : "About 0.1 µs is usual. MSSTREAM_CHECK and tools that read NVTX ranges "
                       "cost time, and a library compiled without -DCMAKE_BUILD_TYPE=Release.");
    }
    if (measures_.replay_us && measures_.captured_operations > 0) {
      auto const each = *measures_.replay_us / measures_.captured_operations;
      auto line = with_quantity(
          line_of("replay", fmt::format("replay of {} operations", measures_.captured_operations)),
          {*measures_.replay_us, "µs"});
      line.value += fmt::format(", {} each", text_of({each, "µs"}));
      bool const gains = !measures_.launch_us || each < *measures_.launch_us;
      add(std::move(line),
          gains ? Level::ok : Level::note,
          gains ? "" : "A captured step does not take less than its launches: update the driver.");
    }
  }

  void add_share(char const* id,
                 char const* thing,
                 std::optional<double> share,
                 char const* advice) {
    if (!share) {
      return;
    }
    auto line = line_of(id, thing);
    line = with_quantity(std::move(line), {100 * *share, "%"});
    line.value = text_of({100 * *share, "% hidden"});
    auto const level = *share >= 0.8 ? Level::ok : *share >= 0.5 ? Level::note : Level::slow;
    add(std::move(line), level, level == Level::ok ? "" : advice);
  }

  void add_streams() {
    if (!measures_.streams_at_once) {
      return;
    }
    auto const count = *measures_.streams_at_once;
    auto line = with_quantity(line_of("hardware-queues", "streams that run at once"),
                              {static_cast<double>(count), "streams"});
    line.value = fmt::format("{} of {}", count, measures_.streams_tried);
    if (count == 0) {
      return add(std::move(line), Level::note, "The clock of the device did not tell.");
    }
    if (count >= 16) {
      return add(std::move(line), Level::ok, "");
    }
    add(std::move(line),
        count >= 8 ? Level::note : Level::slow,
        measures_.max_connections_set
            ? "More streams wait behind each other. CUDA_DEVICE_MAX_CONNECTIONS sets the number of "
              "hardware queues, at most 32."
            : "More streams wait behind each other. Set CUDA_DEVICE_MAX_CONNECTIONS=32 before the "
              "program starts, if it has more groups, or more than one stream in each.");
  }

  void add_overlap() {
    add_streams();
    add_share("kernel-overlap",
              "a kernel beside a kernel",
              measures_.kernels_hidden,
              "Kernels of two streams should run at once. CUDA_LAUNCH_BLOCKING, a profiler or "
              "another process on the device prevents it.");
    add_share("copy-overlap",
              "a copy beside a kernel",
              measures_.copy_hidden,
              "Copies of pinned memory should run beside kernels. Too few copy engines, a profiler "
              "or another process on the device prevents it.");
    add_share("copies-overlap",
              "copies in both directions",
              measures_.copies_hidden,
              "The directions share a copy engine, or the memory of the host is too slow for both. "
              "Bind the process to the NUMA node of the GPU.");
  }

  DeviceMeasures const& measures_;
  Lines lines_;
};

}  // namespace

int most_at_once(std::vector<Interval> const& intervals) {
  std::vector<std::pair<std::uint64_t, int>> steps;
  for (auto const& interval : intervals) {
    if (interval.end > interval.begin) {
      steps.emplace_back(interval.begin, 1);
      steps.emplace_back(interval.end, -1);
    }
  }
  // At one instant, ends come before begins.
  std::sort(steps.begin(), steps.end());
  int now = 0;
  int most = 0;
  for (auto const& [at, step] : steps) {
    now += step;
    most = std::max(most, now);
  }
  return most;
}

double hidden_share(double first, double second, double both) noexcept {
  auto const shorter = std::min(first, second);
  return shorter <= 0 ? 0 : std::clamp((first + second - both) / shorter, 0.0, 1.0);
}

Lines device_measure_lines(DeviceMeasures const& measures) {
  return MeasureLines(measures).take();
}

}  // namespace msstream::doctor
