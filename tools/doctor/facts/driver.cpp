// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/driver.hpp"

#include "doctor/facts/shared_library.hpp"
#include "doctor/facts/system_files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

namespace msstream::doctor {
namespace fs = std::filesystem;
namespace {

/// Returns the oldest branch of drivers for a major version of CUDA, by NVIDIA's table "CUDA
/// Toolkit and Minimum Required Driver Version for CUDA Minor Version Compatibility".
int least_driver(int cuda_version) {
  switch (cuda_version / 1000) {
    case 11:
      return 450;
    case 12:
      return 525;
    default:
      return 580;  // CUDA 13
  }
}

std::string needed_text(DriverFacts const& facts) {
  return fmt::format("this build needs CUDA {}, which is in drivers from {} on",
                     cuda_version_text(facts.toolkit / 1000 * 1000),
                     least_driver(facts.toolkit));
}

Line build_line(DriverFacts const& facts) {
  Line line{Section::driver, "build", "this build"};
  if (!facts.is_cuda_build) {
    line.value = "for the host alone";
    return line;
  }
  auto const kernels = text_of(facts.kernels);
  line.value = fmt::format("CUDA {}, for {}",
                           cuda_version_text(facts.toolkit),
                           kernels.empty() ? "unknown devices" : kernels);
  line.quantity = {facts.toolkit / 1000.0, "CUDA"};
  if (facts.runtime / 1000 != facts.toolkit / 1000) {
    return judged(std::move(line),
                  Level::bad,
                  fmt::format("The CUDA runtime that was loaded is {}. Put the libcudart of the "
                              "build first into LD_LIBRARY_PATH.",
                              cuda_version_text(facts.runtime)));
  }
  return line;
}

/// Says why there is no driver, as far as the files of the system tell.
std::string reason_without_driver(DriverFacts const& facts) {
  if (facts.has_kernel_module) {
    return "The kernel module is loaded, but libcuda.so.1 was not found or does not work. In a "
           "container, start it with the NVIDIA container toolkit (docker run --gpus all); "
           "elsewhere install the driver's library, or add its folder to LD_LIBRARY_PATH.";
  }
  return "Install NVIDIA's driver, or use a computer with a GPU.";
}

Line version_line(DriverFacts const& facts) {
  Line line{Section::driver, "driver", "driver"};
  if (facts.supports == 0) {
    line.value = facts.driver.empty() ? "none found" : facts.driver + ", which does not answer";
    if (!facts.is_cuda_build) {
      return judged(std::move(line), Level::ok, "");
    }
    return judged(std::move(line),
                  Level::bad,
                  fmt::format("Without a driver nothing runs on a GPU; {}. {} Device<Host> works "
                              "without one.",
                              needed_text(facts),
                              reason_without_driver(facts)));
  }
  line.value = fmt::format("{}supports CUDA {}",
                           facts.driver.empty() ? "" : facts.driver + ", ",
                           cuda_version_text(facts.supports));
  line.quantity = {facts.supports / 1000.0, "CUDA"};
  if (facts.is_cuda_build && !is_driver_new_enough(facts)) {
    return judged(
        std::move(line),
        Level::bad,
        fmt::format("The driver is too old: it supports CUDA {}, and {}. Update it; for GPUs of "
                    "data centres, the package cuda-compat-{}-{} works beside it.",
                    cuda_version_text(facts.supports),
                    needed_text(facts),
                    facts.toolkit / 1000,
                    facts.toolkit % 1000 / 10));
  }
  if (facts.is_cuda_build && !compiles_ptx(facts)) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("It is older than the toolkit ({}) of the build. Machine code of the "
                              "build runs, but its PTX cannot be compiled, and features of the "
                              "newer version are missing.",
                              cuda_version_text(facts.toolkit)));
  }
  return line;
}

Line devices_line(DriverFacts const& facts, std::string_view way_to_cuda_build) {
  Line line{Section::driver, "devices", "devices that programs see"};
  line = with_quantity(std::move(line), {static_cast<double>(facts.devices), ""});
  if (!facts.is_cuda_build) {
    return facts.devices == 0 ? line
                              : judged(std::move(line),
                                       Level::note,
                                       fmt::format("This build of msstream does not use them. {}",
                                                   way_to_cuda_build));
  }
  if (facts.devices > 0) {
    return line;
  }
  if (facts.supports == 0 || !is_driver_new_enough(facts)) {
    return judged(std::move(line), Level::bad, "The line about the driver says why.");
  }
  std::string causes;
  if (facts.is_device_hidden) {
    causes +=
        " CUDA_VISIBLE_DEVICES is set, and hides them if it names none that exists: unset it, "
        "or correct it.";
  }
  if (!facts.has_device_files) {
    causes +=
        " /dev/nvidiactl cannot be opened: in a container, start it with --gpus all; "
        "elsewhere look at the permissions of /dev/nvidia*, and run nvidia-smi as root "
        "once, which makes the files.";
  }
  return judged(
      std::move(line),
      Level::bad,
      fmt::format("CUDA says: {}.{}",
                  facts.problem.empty() ? "no device" : facts.problem,
                  causes.empty() ? " nvidia-smi shows whether the driver sees a GPU." : causes));
}

/// Says why NVIDIA's management library does not work. Empty if it works, and where nothing tells
/// that there is a driver.
Lines nvml_lines(DriverFacts const& facts) {
  if (facts.nvml_problem.empty() ||
      (!facts.has_nvml && !facts.has_kernel_module && facts.supports == 0)) {
    return {};
  }
  Line line{Section::driver, "nvml", "management library (NVML)"};
  line.value = (facts.has_nvml ? "does not work: " : "cannot be loaded: ") + facts.nvml_problem;
  if (facts.nvml_problem.find("mismatch") != std::string::npos) {
    return {judged(std::move(line),
                   facts.is_cuda_build ? Level::bad : Level::note,
                   "The kernel module and the libraries are of different drivers, as after an "
                   "update. Restart the computer, or load the module again.")};
  }
  return {judged(std::move(line),
                 Level::note,
                 "What only this library knows of the devices is unknown, such as clocks, the link "
                 "and other programs.")};
}

bool can_open(fs::path const& file) {
  int const descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  return descriptor >= 0;
}

}  // namespace

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool is_driver_new_enough(DriverFacts const& facts) noexcept {
  return facts.supports / 1000 >= facts.toolkit / 1000;
}

bool compiles_ptx(DriverFacts const& facts) noexcept {
  return facts.supports == 0 || facts.supports >= facts.toolkit;
}

DriverFacts read_driver(NvmlFacts const& nvml, fs::path const& root) {
  DriverFacts facts;
  facts.driver = nvml.driver;
  facts.supports = nvml.cuda_version.value_or(0);
  facts.has_nvml = nvml.is_loaded;
  facts.nvml_problem = nvml.problem;
  facts.devices = static_cast<int>(nvml.devices.size());
  std::error_code ignored;
  facts.has_kernel_module = fs::exists(root / "proc/driver/nvidia", ignored);
  if (facts.driver.empty()) {
    // The first line is such as `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  …`.
    for (auto const& word :
         words_of(value_after(text_of_file(root / "proc/driver/nvidia/version"), "NVRM version"))) {
      if (word.find('.') != std::string::npos &&
          word.find_first_not_of("0123456789.") == std::string::npos) {
        facts.driver = word;
        break;
      }
    }
  }
  facts.has_device_files = can_open(root / "dev/nvidiactl");
  facts.is_device_hidden = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  return facts;
}

int supported_by_libcuda() {
  SharedLibrary const library("libcuda.so.1");
  auto* const get_version = library.function<int(int*)>("cuDriverGetVersion");
  int version = 0;
  return get_version != nullptr && get_version(&version) == 0 ? version : 0;
}

Lines driver_lines(DriverFacts const& facts, std::string_view way_to_cuda_build) {
  Lines lines{build_line(facts), version_line(facts), devices_line(facts, way_to_cuda_build)};
  auto const nvml = nvml_lines(facts);
  lines.insert(lines.end(), nvml.begin(), nvml.end());
  return lines;
}

}  // namespace msstream::doctor
