// SPDX-License-Identifier: Apache-2.0
#include "load/memory_taken.hpp"

#include <unistd.h>

#include <fstream>

namespace msstream::load {

std::int64_t resident_bytes() {
  std::ifstream pages("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  return pages >> all >> resident ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace msstream::load
