// SPDX-License-Identifier: Apache-2.0
// A program that reports on its own streams, with the installed library msstream::overlap.
#include <msstream/msstream.hpp>
#include <msstream/overlap/report.hpp>

#include <iostream>
#include <vector>

int main() {
  msstream::Device<msstream::Host> device;
  auto const x = msstream::to_device(device, std::vector<float>(64, 1.0F), {64});
  auto const report =
      msstream::overlap_report(device, [&] { (void)msstream::ops::scale(x, 2.0F); });
  std::cout << report.text();
  return report.window_ns() > 0 ? 0 : 1;
}
