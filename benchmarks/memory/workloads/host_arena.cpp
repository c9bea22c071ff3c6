// SPDX-License-Identifier: Apache-2.0
#include "bare.hpp"
#include "msstream_contender.hpp"

namespace benchmarks::workloads {

Arena host_arena() {
  Arena arena{"host", Bare<ms::Host>::device_name(), "", {}};
  add_msstream<ms::Host>(arena.entrants);
  return arena;
}

}  // namespace benchmarks::workloads
