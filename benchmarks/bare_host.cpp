// SPDX-License-Identifier: Apache-2.0
#include "bare.hpp"

#include <fstream>

namespace benchmarks {

std::string Bare<ms::Host>::device_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "CPU";
}

}  // namespace benchmarks
