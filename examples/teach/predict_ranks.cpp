// SPDX-License-Identifier: Apache-2.0
// Predicts how long a training step would take on more ranks, from a step recorded on two, which
// are threads, and from the speeds of their collectives.
#include "teach.hpp"

#include <msstream/comm/measure_links.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/ranks_model.hpp>
#include <msstream/step/record_step.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <iostream>

namespace ms = msstream;
using R = ms::Host;

namespace {

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kWidth = 128;

void predict(ms::comm::World const& world) {
  ms::Device<R> const device;
  ms::comm::Communicator<R> const ranks(device, world);
  ms::Parameters<R> parameters(device);
  auto const first = parameters.dense("first", {kWidth, kWidth});
  auto const second = parameters.dense("second", {kWidth, 1});
  ms::DataParallel<R> const parallel(parameters, ranks);
  ms::Optimizer<R> optimizer(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.1F});
  optimizer.add(parameters);
  ms::GradientTape<R> tape(device);
  ms::Tensor<float, R> const x(device, {kRows, kWidth});
  ms::Tensor<float, R> const y(device, {kRows, 1});
  fill_bytes(x, 0);
  fill_bytes(y, 0);
  auto const step = [&] {
    auto const hidden = ms::ops::relu(tape, ms::ops::matmul(tape, x, first));
    auto const logits = ms::ops::matmul(tape, hidden, second);
    parallel.backward(tape, ms::ops::mean_bce_with_logits(tape, logits, y));
    optimizer.step(tape);
    tape.clear();
  };
  step();  // makes what is made at first use

  auto const trace = ms::record_step(device, step);  // all ranks issue the step
  auto links = ms::comm::measure_links(ranks, std::size_t{1} << 20U);
  // Two ranks tell nothing of more. Assumed: nodes of eight that are as near to each other, what
  // each further rank adds to a call, and that nodes are half as near, with an eighth of the speed.
  links.ranks_per_node = 8;
  for (auto& [kind, speed] : links.inside) {
    bool const is_message = kind == ms::comm::CollectiveKind::all_to_all;
    speed.step_ns = speed.latency_ns / (is_message ? 80 : 8);
  }
  links.between = links.inside;
  for (auto& [kind, speed] : links.between) {
    speed.latency_ns *= 2;
    speed.step_ns *= 2;
    speed.bytes_per_ns /= 8;
  }
  for (auto const& [kind, speed] : links.inside) {
    double const two = collective_ns(links, kind, 0, 2);
    teach::expect(collective_ns(links, kind, 0, 8) <= 2 * two,
                  "eight ranks of a node take at most twice as long as two");
  }
  if (world.rank() != 0) {
    return;
  }
  for (int const count : {2, 8, 64}) {
    auto const weak = ms::predict(trace, links, {.ranks = count});
    auto const strong =
        ms::predict(trace,
                    links,
                    {.ranks = count,
                     .rows = 2.0 / count,
                     .fixed = {"*data_parallel/*", "*update_dense", "*advance_step"}});
    std::cout << fmt::format(
        "{} ranks: {:.0f} us with {} rows each, {:.0f} us exposed; {:.0f} us with {} each\n",
        count,
        weak.step_ns / 1e3,
        kRows,
        weak.exposed_ns() / 1e3,
        strong.step_ns / 1e3,
        2 * kRows / count);
    teach::expect(weak.step_ns >= weak.collectives_ns, "a communicator runs them in turn");
    teach::expect(strong.compute_ns <= weak.compute_ns, "fewer rows take no longer to compute");
  }
}

}  // namespace

int main() {
  return teach::run([] { ms::comm::run_as_threads(2, predict); });
}
