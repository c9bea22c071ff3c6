// SPDX-License-Identifier: Apache-2.0
#include "doctor/examination.hpp"

#include "doctor/facts/host.hpp"
#include "doctor/facts/libraries.hpp"
#include "doctor/facts/limits.hpp"
#include "doctor/facts/nvml.hpp"
#include "doctor/facts/toolkit.hpp"
#include "doctor/measure/measure_host.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <utility>

#if MSSTREAM_CUDA
#include "doctor/facts/cuda_facts_cuda.hpp"
#include "doctor/measure/measure_device_cuda.hpp"
#endif

namespace msstream::doctor {
namespace {

#if MSSTREAM_CUDA
Line without_device(Section section, char const* id, char const* thing) {
  return {section,
          id,
          thing,
          Level::note,
          "not looked at",
          "There is no device that programs can use: the lines about the driver say why."};
}

Lines device_measurements(ExaminationPlan const& plan,
                          Computer const& computer,
                          EnvironmentFacts const& environment,
                          Findings const& findings) {
  MeasurePlan measured;
  measured.device = plan.device;
  measured.link_gb_per_s =
      link_gb_per_s(computer.devices.at(static_cast<std::size_t>(plan.device)).nvml);
  measured.max_connections_set = environment.variables.contains("CUDA_DEVICE_MAX_CONNECTIONS");
  return device_measure_lines(
      measure_device(measured, findings.begin_in(Section::device_measured)));
}
#endif

}  // namespace

Computer read_computer() {
  Computer computer;
  auto const nvml = read_nvml();
  computer.driver = read_driver(nvml);
#if MSSTREAM_CUDA
  add_cuda(computer.driver);
  computer.devices = read_devices(computer.driver.devices, nvml);
#else
  computer.devices = devices_of(nvml);
#endif
  for (auto& device : computer.devices) {
    add_nearness(device);
  }
  if (computer.driver.supports == 0) {
    computer.driver.supports = supported_by_libcuda();
  }
  return computer;
}

void examine_host(EnvironmentFacts const& environment, Findings const& findings) {
  findings.attempt(Section::host, "host", "the host", [] { return host_lines(read_host()); });
  findings.attempt(Section::limits, "limits", "limits of the process", [] {
    return limit_lines(read_limits());
  });
  findings.attempt(Section::environment, "variables", "environment variables", [&] {
    return environment_lines(environment);
  });
}

void examine(ExaminationPlan const& plan,
             Computer const& computer,
             EnvironmentFacts const& environment,
             Findings const& findings) {
  ToolkitFacts toolkits;
  findings.attempt(Section::toolkit, "toolkit", "CUDA toolkit", [&] {
    toolkits = read_toolkits(toolkit_variables());
    return toolkit_lines(toolkits, computer.driver.supports);
  });
  findings.add(
      driver_lines(computer.driver, way_to_cuda_build(toolkits, computer.driver.supports)));
  for (auto const& device : computer.devices) {
    findings.add(device_lines(device, computer.driver));
  }
  if (!computer.devices.empty()) {
    findings.add({mps_line(read_mps())});
  }
#if MSSTREAM_CUDA
  if (computer.has_usable_device()) {
    findings.attempt(Section::features, "features", "features of the device", [&] {
      return feature_lines(read_features(plan.device));
    });
  } else {
    findings.add({without_device(Section::features, "features", "features of the device")});
  }
#endif
  if (!plan.is_quick) {
    findings.attempt(Section::host_measured, "host-measured", "the host's speed", [&] {
      return host_measure_lines(
          measure_host(usable_processors(read_host()), findings.begin_in(Section::host_measured)));
    });
#if MSSTREAM_CUDA
    findings.attempt(Section::device_measured, "device", "the device", [&] {
      return computer.has_usable_device()
                 ? device_measurements(plan, computer, environment, findings)
                 : Lines{without_device(Section::device_measured, "device", "the device")};
    });
#endif
  }
  // The last check: while CUPTI has a subscriber, launches take longer.
  findings.attempt(Section::libraries, "libraries", "libraries and tools", [&] {
    return library_lines(
        read_libraries(environment.variables, computer.driver.supports, computer.driver.toolkit));
  });
}

}  // namespace msstream::doctor
