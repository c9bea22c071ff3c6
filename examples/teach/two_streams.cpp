// SPDX-License-Identifier: Apache-2.0
// Two branches that run at the same time, and a third operation that needs both.
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>

namespace ms = msstream;

int main() {
  return teach::run([] {
    ms::Device device;
    ms::StreamPool pool(device, {.groups = 2});
    auto const input = ms::to_device(device, std::vector<float>(1'000'000, 1.0F), {1000, 1000});

    // Operations that are issued inside a scope run on that scope's streams. The host does not
    // wait.
    auto const left = [&] {
      ms::StreamScope const branch(pool[0]);
      return ms::ops::scale(input, 2.0F);
    }();
    auto const right = [&] {
      ms::StreamScope const branch(pool[1]);
      return ms::ops::scale(input, 3.0F);
    }();

    // An operation outside all scopes runs on the default group. The sum reads the results of both
    // branches, so its stream waits for theirs.
    std::vector<float> const sum = ms::to_host(ms::ops::add<ms::DefaultRuntime>({left, right}));

    teach::expect(std::all_of(sum.begin(), sum.end(), [](float x) { return x == 5.0F; }),
                  "2 * 1 + 3 * 1 is 5 everywhere");
    auto const waits = device.wait_counts();
    std::cout << device.operation_count() << " operations; between streams " << waits.needed
              << " waits were needed, " << waits.issued << " issued, " << waits.elided
              << " known to hold already\n";
  });
}
