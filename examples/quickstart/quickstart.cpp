// SPDX-License-Identifier: Apache-2.0
// The program that README.md shows. Trains a small model for five steps: four branches run on four
// stream groups, and a layer joins their results.
#include <msstream/msstream.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace ms = msstream;

int main() {
  ms::Device device;  // a GPU in a CUDA build, else the host runtime
  ms::StreamPool pool(device, {.groups = 4});
  ms::GradientTape tape(device);
  ms::Optimizer optimizer(device, ms::ops::OptimizerRule{ms::ops::OptimizerKind::adam, 0.05F});

  auto const keys =
      ms::to_device(device, std::vector<std::int64_t>{11, 22, 33, 11, 22, 33, 11, 22}, {8});
  auto const labels = ms::to_device(device, std::vector<float>{1, 0, 1, 1, 0, 1, 1, 0}, {8, 1});
  auto const weight = ms::to_device(device, std::vector<float>(16, 0.1F), {16, 1});
  auto const bias = ms::zeros<float>(device, {1});
  optimizer.add("weight", weight);
  optimizer.add("bias", bias);
  std::vector<ms::Tensor<float>> tables;  // starts empty: Tensor has no default constructor
  tables.reserve(4);
  for (int i = 0; i < 4; ++i) {
    tables.push_back(ms::to_device(device, std::vector<float>(400, 0.1F), {100, 4}));
    optimizer.add_table("table " + std::to_string(i), tables.back());
  }
  std::vector<float> losses;
  for (int step = 0; step < 5; ++step) {
    std::vector<ms::Tensor<float>> pooled;
    for (int i = 0; i < 4; ++i) {
      // Runs the operations issued in this scope, and their backward passes, on stream group i.
      ms::StreamScope const branch(pool[i], {.include_grad = true});
      auto const ids = ms::ops::hash_to_bucket(keys, 100, i);
      pooled.push_back(ms::ops::embedding_lookup(tape, tables[i], ms::ops::Bags(ids)));
    }
    // The dense layer reads the results of all branches, so its stream waits for theirs.
    auto const logits = ms::ops::dense(tape, ms::ops::concat(tape, pooled), weight, bias);
    auto const loss = ms::ops::mean_bce_with_logits(tape, logits, labels);
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
    losses.push_back(ms::to_host(loss)[0]);
    std::printf("step %d: loss %.4f\n", step, losses.back());
  }
  auto const waits = device.wait_counts();
  std::printf("%llu operations needed %llu waits; %llu were known to hold already\n",
              static_cast<unsigned long long>(device.operation_count()),
              static_cast<unsigned long long>(waits.needed),
              static_cast<unsigned long long>(waits.elided));
  bool const is_told = std::fflush(stdout) == 0;
  return is_told && losses.back() < losses.front() ? 0 : 1;
}
