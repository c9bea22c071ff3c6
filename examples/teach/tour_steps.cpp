// SPDX-License-Identifier: Apache-2.0
// Writes the steps that the pictures of the tour show: teach_tour_steps FOLDER. The steps are those
// of the chapters' programs, recorded on a simulated GPU on which every kernel takes 20 µs and
// fills a quarter of the multiprocessors, and launches take no time. scripts/draw_tour.sh draws
// them.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/sim.hpp>
#include <msstream/step/record_step.hpp>
#include <msstream/step/step_trace.hpp>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ms = msstream;
namespace ops = ms::ops;
using R = ms::Sim;
using Floats = ms::Tensor<float, R>;

namespace {

/// A simulated GPU with a pool of groups and two tensors.
struct Simulated {
  explicit Simulated(int groups)
      : device({.runtime = {.schedule = ms::sim::by_time(), .cost = cost()}}),
        pool(device, {.groups = groups}) {}

  static ms::SimCost cost() {
    ms::SimCost cost{.launch_call_ns = 0,
                     .copy_call_ns = 0,
                     .record_call_ns = 0,
                     .wait_call_ns = 0,
                     .query_call_ns = 0};
    cost.kernel = [](std::string_view, auto) { return ms::SimCost::Kernel{20'000, 33}; };
    return cost;
  }
  template <class Work>
  auto on(int group, Work&& work) const {
    ms::StreamScope const scope(pool[group], {.include_grad = true});
    return work();
  }
  /// Records a step after another one, which makes what is made at first use. Streams are named
  /// after their groups, which have no other work.
  template <class Step>
  ms::StepTrace record(Step&& step) const {
    step();
    auto const trace = ms::record_step(device, step, ms::SpanTiming::as_issued);
    auto streams = trace.streams();
    for (auto& stream : streams) {
      stream.name = stream.group < 0 ? "default" : "group " + std::to_string(stream.group);
    }
    return {streams, trace.memory_bytes(), trace.operations(), trace.waits()};
  }

  ms::Device<R> device;
  ms::StreamPool<R> pool;
  Floats x = ms::to_device(device, std::vector<float>(64 * 64, 1.0F), {64, 64});
};

ms::StepTrace two_streams() {
  Simulated const s(2);
  return s.record([&] {
    auto const left = s.on(0, [&] { return ops::scale(s.x, 2.0F); });
    auto const right = s.on(1, [&] { return ops::scale(s.x, 3.0F); });
    (void)ops::add(std::vector{left, right});
  });
}

ms::StepTrace scopes_and_groups() {
  Simulated const s(3);
  auto const layer = [&] { return ops::relu(ops::matmul(s.x, s.x)); };
  return s.record([&] {
    std::vector<Floats> towers;
    s.on(0, [&] {
      towers.push_back(s.on(1, layer));
      towers.push_back(layer());
    });
    towers.push_back(s.on(2, layer));
    (void)ops::add(towers);
  });
}

ms::StepTrace waits_found() {
  Simulated const s(3);
  return s.record([&] {
    auto const a = s.on(0, [&] { return ops::scale(s.x, 2.0F); });
    auto const b = s.on(1, [&] { return ops::scale(a, 3.0F); });
    auto const c = s.on(1, [&] { return ops::add(std::vector{a, b}); });
    auto const d = s.on(2, [&] { return ops::scale(c, 0.5F); });
    (void)s.on(2, [&] { return ops::add(std::vector{a, d}); });
  });
}

ms::StepTrace memory_across_streams() {
  Simulated const s(2);
  return s.record([&] {
    auto sum = s.x;
    for (int step = 0; step < 4; ++step) {
      auto const part = s.on(0, [&] { return ops::scale(s.x, 2.0F); });
      sum = s.on(1, [&] { return ops::add(std::vector{sum, part}); });
    }
  });
}

ms::StepTrace lifetimes() {
  Simulated const s(2);
  return s.record([&] {
    auto const result = s.on(0, [&] { return ops::scale(s.x, 2.0F); });
    // Stands for work under a TensorHolder, which no recording knows.
    s.on(1, [&] { ms::issue("fill", ms::writes(result), [](auto stream) { stream.run([] {}); }); });
    (void)s.on(0, [&] { return ops::add(std::vector{result, s.x}); });
  });
}

ms::StepTrace own_kernel() {
  Simulated const s(2);
  return s.record([&] {
    auto x = s.x;
    for (int step = 0; step < 6; ++step) {
      x = s.on(step % 2, [&] { return ops::scale(x, 2.0F); });
    }
  });
}

/// The step of examples/quickstart, on some of its four groups.
ms::StepTrace quickstart(int groups) {
  Simulated const s(groups);
  ms::GradientTape<R> tape(s.device);
  ms::Optimizer<R> optimizer(s.device, ops::OptimizerRule{ops::OptimizerKind::adam, 0.05F});
  auto const keys = ms::to_device(s.device, std::vector<std::int64_t>{11, 22, 33, 44}, {4});
  auto const labels = ms::to_device(s.device, std::vector<float>{1, 0, 1, 1}, {4, 1});
  auto const weight = ms::to_device(s.device, std::vector<float>(16, 0.1F), {16, 1});
  auto const bias = ms::zeros<float>(s.device, {1});
  optimizer.add("weight", weight);
  optimizer.add("bias", bias);
  std::vector<Floats> tables;
  for (int i = 0; i < 4; ++i) {
    tables.push_back(ms::to_device(s.device, std::vector<float>(400, 0.1F), {100, 4}));
    optimizer.add_table("table " + std::to_string(i), tables.back());
  }
  return s.record([&] {
    std::vector<Floats> pooled;
    for (int i = 0; i < 4; ++i) {
      pooled.push_back(s.on(i % groups, [&] {
        auto const ids = ops::hash_to_bucket(keys, 100, i);
        return ops::embedding_lookup(tape, tables[static_cast<std::size_t>(i)], ops::Bags<R>(ids));
      }));
    }
    auto const logits = ops::dense(tape, ops::concat(tape, pooled), weight, bias);
    tape.backward(ops::mean_bce_with_logits(tape, logits, labels));
    optimizer.step(tape);
    tape.clear();
  });
}

}  // namespace

int main(int argc, char** argv) {
  return teach::run([&] {
    if (argc != 2) {
      throw std::runtime_error("usage: teach_tour_steps FOLDER");
    }
    std::filesystem::path const folder = argv[1];
    std::filesystem::create_directories(folder);
    two_streams().save(folder / "two-streams.json");
    scopes_and_groups().save(folder / "scopes-and-groups.json");
    waits_found().save(folder / "waits-found.json");
    memory_across_streams().save(folder / "memory.json");
    lifetimes().save(folder / "lifetimes.json");
    own_kernel().save(folder / "own-kernel.json");
    quickstart(1).save(folder / "one-group.json");
    quickstart(4).save(folder / "four-groups.json");
  });
}
