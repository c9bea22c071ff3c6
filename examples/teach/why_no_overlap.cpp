// SPDX-License-Identifier: Apache-2.0
// A wait that nothing needs, the report that finds it, and the step without the wait.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/overlap/report.hpp>

#include <vector>

namespace ms = msstream;

int main() {
  return teach::run([] {
    ms::Device device;
    ms::StreamPool pool(device, {.groups = 2});
    constexpr std::int64_t kWidth = 768;
    auto const x =
        ms::to_device(device, std::vector<float>(kWidth * kWidth, 1.0F), {kWidth, kWidth});

    auto const product = [&](int group) {
      ms::StreamScope const branch(pool[group]);
      return ms::ops::matmul(x, x);
    };
    bool waits = true;
    auto const step = [&] {
      auto const left = product(0);
      if (waits) {
        pool[1].compute().wait(pool[0].compute().record());  // the second product needs only x
      }
      auto const right = product(1);
      ms::StreamScope const join(pool[0]);
      (void)ms::ops::add(std::vector{left, right});
    };

    auto const report = ms::overlap_report(device, [&] { step(); });
    std::cout << report.text();
    teach::expect(report.has("false-dependency"), "the wait is found");

    waits = false;
    auto const fixed = ms::overlap_report(device, [&] { step(); });
    std::cout << '\n' << fixed.text();
    teach::expect(!fixed.has("false-dependency"), "without the wait, it is not found");
  });
}
