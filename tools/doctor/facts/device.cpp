// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/device.hpp"

#include "cli/page.hpp"
#include "doctor/facts/system_files.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

namespace msstream::doctor {
namespace fs = std::filesystem;
namespace {

Line line_of(DeviceFacts const& facts, std::string id, std::string thing) {
  Line line{Section::device, std::move(id), fmt::format("GPU {}: {}", facts.ordinal, thing)};
  line.device = facts.ordinal;
  return line;
}

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

Line name_line(DeviceFacts const& facts, DriverFacts const& driver) {
  auto line = line_of(facts, "device", "kind");
  line.value = fmt::format("{}, compute capability {}",
                           facts.name.empty() ? "unnamed" : facts.name,
                           capability_text(facts.capability));
  line.quantity = {facts.capability / 10.0, "compute capability"};
  if (facts.multiprocessors > 0) {
    line.value += fmt::format(", {} multiprocessors", facts.multiprocessors);
  }
  auto const kernels = text_of(driver.kernels);
  if (kernels.empty() || !facts.is_visible || facts.capability == 0) {
    return line;
  }
  auto const path = path_to(facts.capability, driver.kernels);
  if (path == KernelPath::machine_code) {
    return line;
  }
  auto const built_again = fmt::format(
      "build again with CUDAARCHS={}, or CUDAARCHS=native on this computer.", facts.capability);
  if (path == KernelPath::none) {
    return judged(
        std::move(line),
        Level::bad,
        fmt::format("The kernels of this build ({}) do not run on it: {}", kernels, built_again));
  }
  if (!compiles_ptx(driver)) {
    return judged(
        std::move(line),
        Level::bad,
        fmt::format("The kernels of this build do not run on it: it has only their PTX, and a "
                    "driver for CUDA {} cannot compile PTX of CUDA {}. Update the driver, or {}",
                    cuda_version_text(driver.supports),
                    cuda_version_text(driver.toolkit),
                    built_again));
  }
  return judged(std::move(line),
                Level::slow,
                fmt::format("The driver compiles the kernels for it when programs start, which "
                            "takes minutes the first time. To save that, {}",
                            built_again));
}

Line memory_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "device-memory", "memory");
  line.value = bytes_text(facts.memory_bytes);
  line.quantity = {facts.memory_bytes, "bytes"};
  // NVML's number is that of the whole GPU, of which a program on a MIG device has a part.
  if (!facts.nvml.free_bytes || facts.nvml.mig.value_or(false)) {
    return line;
  }
  line.value += fmt::format(", {} free", bytes_text(*facts.nvml.free_bytes));
  if (*facts.nvml.free_bytes < 0.5 * facts.memory_bytes) {
    return judged(std::move(line),
                  Level::note,
                  "Other programs have more than half. End them, or limit msstream by "
                  "MSSTREAM_MEMORY_LIMIT_BYTES so that they share it as intended.");
  }
  return line;
}

Line compute_mode_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "compute-mode", "compute mode");
  auto const mode = facts.compute_mode ? facts.compute_mode : facts.nvml.compute_mode;
  constexpr std::array<char const*, 4> kNames{
      "default", "exclusive thread", "prohibited", "exclusive process"};
  line.value =
      mode && *mode >= 0 && *mode < 4 ? kNames[static_cast<std::size_t>(*mode)] : "unknown";
  if (mode == 2) {
    return judged(std::move(line),
                  Level::bad,
                  "No program may use the device. An administrator allows it again: nvidia-smi "
                  "--compute-mode=DEFAULT.");
  }
  if (mode == 1 || mode == 3) {
    return judged(std::move(line),
                  Level::note,
                  "One process at a time, unless MPS is on: a second rank on this GPU fails.");
  }
  return line;
}

Line persistence_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "persistence", "persistence mode");
  auto const on = facts.nvml.persistence;
  line.value = !on ? "unknown" : *on ? "on" : "off";
  if (on == false) {
    return judged(std::move(line),
                  Level::note,
                  "The driver leaves the device when the last program ends, and the next start "
                  "takes a second or more. An administrator turns it on: nvidia-persistenced, or "
                  "nvidia-smi --persistence-mode=1.");
  }
  return line;
}

Line ecc_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "ecc", "error-correcting memory (ECC)");
  auto const on = facts.ecc ? facts.ecc : facts.nvml.ecc;
  line.value = !on ? "not supported, or unknown" : *on ? "on" : "off";
  return line;
}

Line mig_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "mig", "Multi-Instance GPU (MIG)");
  auto const on = facts.nvml.mig;
  line.value = !on ? "not supported, or unknown" : *on ? "on" : "off";
  if (on == true) {
    return judged(std::move(line),
                  Level::note,
                  "A process gets one instance: its part of the multiprocessors, memory and copy "
                  "engines, and no peer access. Streams overlap within the instance only.");
  }
  return line;
}

Line link_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "link", "link to the host");
  auto const& nvml = facts.nvml;
  if (!nvml.link_generation || !nvml.link_width) {
    line.value = "unknown";
    return line;
  }
  line.value = fmt::format("PCI Express {}, {} lanes", *nvml.link_generation, *nvml.link_width);
  line.quantity = {link_gb_per_s(nvml), "GB/s"};
  if (nvml.most_link_width && *nvml.link_width < *nvml.most_link_width) {
    return judged(std::move(line),
                  Level::slow,
                  fmt::format("The device has {} lanes. Copies take longer by that factor: look at "
                              "the slot, the riser and the settings of the firmware.",
                              *nvml.most_link_width));
  }
  return line;
}

Line near_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "near-processors", "processors near it");
  if (!facts.near_processors) {
    line.value = "unknown";
    return line;
  }
  line = with_quantity(std::move(line), {static_cast<double>(facts.near_allowed), "usable"});
  line.value =
      fmt::format("{}, the process may use {}", *facts.near_processors, facts.near_allowed);
  if (facts.near_allowed == 0) {
    return judged(std::move(line),
                  Level::slow,
                  "The process runs on another NUMA node, so that copies and launches take longer. "
                  "Bind it to the node of the GPU: nvidia-smi topo -m, numactl --cpunodebind.");
  }
  return line;
}

Line slowdown_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "clocks", "clocks slowed down");
  auto const reasons = facts.nvml.slowdown_reasons;
  struct Reason {
    std::uint64_t bit;
    char const* name;
  };
  std::string found;
  for (auto const& [bit, name] : {Reason{0x8, "hardware slowdown"},
                                  Reason{0x20, "temperature, by software"},
                                  Reason{0x40, "temperature, by hardware"},
                                  Reason{0x80, "power brake"}}) {
    if (reasons && (*reasons & bit) != 0) {
      found += (found.empty() ? "" : ", ") + std::string(name);
    }
  }
  line.value = !reasons ? "unknown" : found.empty() ? "no" : found;
  if (!found.empty()) {
    return judged(std::move(line),
                  Level::slow,
                  "Kernels run slower than the device can. Look at its cooling and its power "
                  "supply (nvidia-smi -q -d PERFORMANCE).");
  }
  return line;
}

Line processes_line(DeviceFacts const& facts) {
  auto line = line_of(facts, "other-processes", "other processes");
  if (!facts.nvml.processes) {
    line.value = "unknown";
    return line;
  }
  line = with_quantity(std::move(line), {static_cast<double>(*facts.nvml.processes), ""});
  if (*facts.nvml.processes > 0) {
    return judged(std::move(line),
                  Level::note,
                  "They share the device, so that measurements below vary. Without MPS the device "
                  "runs kernels of one process at a time: see " +
                      cli::page_path("docs/doctor.md") + ".");
  }
  return line;
}

}  // namespace

double link_gb_per_s(NvmlDevice const& device) noexcept {
  // GB/s of a lane, by generation of PCI Express.
  constexpr std::array kOfLane{0.0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
  auto const generation = static_cast<std::size_t>(std::max(0, device.link_generation.value_or(0)));
  return kOfLane[std::min(generation, kOfLane.size() - 1)] * device.link_width.value_or(0);
}

std::vector<DeviceFacts> devices_of(NvmlFacts const& nvml) {
  std::vector<DeviceFacts> devices;
  for (auto const& device : nvml.devices) {
    DeviceFacts facts;
    facts.ordinal = static_cast<int>(devices.size());
    facts.name = device.name;
    facts.bus_id = device.bus_id;
    facts.capability = device.capability.value_or(0);
    facts.memory_bytes = device.memory_bytes.value_or(0);
    facts.is_visible = false;
    facts.nvml = device;
    devices.push_back(std::move(facts));
  }
  return devices;
}

void add_nearness(DeviceFacts& facts, fs::path const& root) {
  auto const near = processors_of_list(
      text_of_file(root / "sys/bus/pci/devices" / facts.bus_id / "local_cpulist"));
  if (facts.bus_id.empty() || near.empty()) {
    return;
  }
  auto const allowed = allowed_processors(root);
  facts.near_processors = static_cast<int>(near.size());
  facts.near_allowed = static_cast<int>(std::ranges::count_if(
      near, [&](int processor) { return allowed.empty() || allowed.contains(processor); }));
}

MpsFacts read_mps(fs::path const& root) {
  MpsFacts facts;
  auto const* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  facts.pipe_folder = folder != nullptr && *folder != '\0' ? folder : "/tmp/nvidia-mps";
  auto const path = root / fs::path(facts.pipe_folder).relative_path();
  std::error_code ignored;
  if (fs::exists(path / "control", ignored)) {
    // A daemon that was killed leaves its files. One of another user answers with EPERM.
    auto const pid = number_of_file(path / "nvidia-cuda-mps-control.pid");
    facts.is_running = !pid || ::kill(static_cast<pid_t>(*pid), 0) == 0 || errno == EPERM;
  }
  return facts;
}

Line mps_line(MpsFacts const& facts) {
  Line line{Section::device, "mps", "Multi-Process Service (MPS)"};
  if (!facts.is_running) {
    line.value = "off";
    return line;
  }
  line.value = "on, at " + facts.pipe_folder;
  return judged(std::move(line),
                Level::note,
                "Kernels of several processes overlap, and a fault in one can end the others. "
                "Groups of one process need no MPS: see " +
                    cli::page_path("docs/doctor.md") + ".");
}

Lines device_lines(DeviceFacts const& facts, DriverFacts const& driver) {
  return {name_line(facts, driver),
          memory_line(facts),
          compute_mode_line(facts),
          persistence_line(facts),
          ecc_line(facts),
          mig_line(facts),
          link_line(facts),
          near_line(facts),
          slowdown_line(facts),
          processes_line(facts)};
}

std::string summary_of(DeviceFacts const& facts) {
  auto text = fmt::format("{}  {}, {}, compute capability {}",
                          facts.ordinal,
                          facts.name.empty() ? "unnamed" : facts.name,
                          bytes_text(facts.memory_bytes),
                          capability_text(facts.capability));
  if (facts.multiprocessors > 0) {
    text += fmt::format(", {} multiprocessors", facts.multiprocessors);
  }
  return facts.bus_id.empty() ? text : text + ", at " + facts.bus_id;
}

}  // namespace msstream::doctor
