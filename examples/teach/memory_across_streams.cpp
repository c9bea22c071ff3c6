// SPDX-License-Identifier: Apache-2.0
// Memory that one stream frees serves another one, without a race and without a wait of the host.
// The program runs on the simulator, where every run is the same.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/sim.hpp>

#include <vector>

namespace ms = msstream;
using R = ms::Sim;

int main() {
  return teach::run([] {
    constexpr std::int64_t kCount = 1 << 20;  // 4 MiB
    ms::Device<R> const device({.runtime = {.schedule = ms::sim::by_time()},
                                .memory = {.limit_bytes = std::size_t{40} << 20U}});
    ms::StreamPool<R> pool(device, {.groups = 2});
    auto const x = ms::to_device(device, std::vector<float>(kCount, 1.0F), {kCount});
    auto sum = ms::zeros<float>(device, {kCount});

    for (int step = 0; step < 100; ++step) {
      auto const part = [&] {
        ms::StreamScope const scope(pool[0]);
        return ms::ops::scale(x, 2.0F);
      }();
      ms::StreamScope const scope(pool[1]);
      sum = ms::ops::add(std::vector{sum, part});
      // Here `part` and the last sum lose their only handles, while both streams may still be busy
      // with them. Their memory is free for the next step.
    }

    teach::expect(ms::to_host(sum).front() == 200.0F, "100 times 2");
    auto const memory = device.memory_statistics();
    std::cout << memory.allocations << " tensors of 4 MiB from " << (memory.reserved_bytes >> 20U)
              << " MiB of memory\n"
              << memory.reuses << " reused memory, " << memory.steals
              << " of them what another stream used last\n"
              << memory.waiting_reuses
              << " had to wait, on the device, for the memory's last use\n";
  });
}
