// SPDX-License-Identifier: Apache-2.0
// Draws when the operations of a step ran, and marks the steps that a profiler is to record.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/trace/timeline.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

namespace ms = msstream;

namespace {

void profile(ms::Device<> const& device) {
  ms::StreamPool pool(device, {.groups = 2});
  auto const batch = ms::ops::random_normal(device, {256, 256}, {1, "batch"});
  auto const train = [&](ms::Tensor<float> const& x) {
    std::vector<ms::Tensor<float>> branches;
    for (int i = 0; i < 2; ++i) {
      ms::StreamScope const scope(pool[i]);
      branches.push_back(ms::ops::matmul(x, x));
    }
    return ms::ops::add(branches);
  };
  auto const path = std::filesystem::temp_directory_path() / "msstream-step.trace.json";

  device.start_spans();  // each operation takes two timed events from here on
  train(batch);
  ms::trace::Timeline const timeline = device.stop_spans();  // waits for the recorded operations
  std::cout << timeline.draw();                  // a line a stream, a letter an operation
  std::ofstream(path) << timeline.trace_json();  // for Perfetto

  teach::expect(timeline.spans().size() == 3, "three operations");
  std::filesystem::remove(path);

  for (int step = 0; step < 10; ++step) {
    if (step < 5) {
      train(batch);  // warms up
    } else {
      ms::NameScope const profiled("profiled");
      train(batch);
    }
  }
}

}  // namespace

int main() {
  return teach::run([] { profile(ms::Device<>()); });
}
