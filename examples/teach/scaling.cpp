// SPDX-License-Identifier: Apache-2.0
// Predicts the steps of two models on up to 1,024 GPUs from pieces that were measured on one and
// two, and prints the tables of docs/scaling.md. scripts/draw_scaling.py puts them there.
#include "teach.hpp"

#include <msstream/comm/links.hpp>
#include <msstream/msstream.hpp>
#include <msstream/step/ranks_model.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace ms = msstream;
using Kind = ms::comm::CollectiveKind;

namespace {

/// Nodes of eight H200. Measured, on two: the bandwidths inside a node and the latency of a call,
/// 16 us. docs/scaling.md tells where the others are from.
ms::comm::Links h200_nodes() {
  ms::comm::Links links{.ranks_per_node = 8, .multiprocessors = 16};
  links.inside = {{Kind::all_reduce, {.latency_ns = 16'000, .step_ns = 2'500, .bytes_per_ns = 300}},
                  {Kind::all_gather, {.latency_ns = 16'000, .step_ns = 1'900, .bytes_per_ns = 258}},
                  {Kind::all_to_all, {.latency_ns = 16'000, .step_ns = 200, .bytes_per_ns = 282}}};
  links.between = {
      {Kind::all_reduce, {.latency_ns = 31'000, .step_ns = 17'000, .bytes_per_ns = 45}},
      {Kind::all_gather, {.latency_ns = 18'000, .step_ns = 4'000, .bytes_per_ns = 45}},
      {Kind::all_to_all, {.latency_ns = 18'000, .step_ns = 500, .bytes_per_ns = 45}}};
  return links;
}

constexpr double kGapNs = 500;  ///< ms::StepModel::in_stream_ns

/// A step of one rank: operations of equal time on the default group, between collectives.
class Step {
 public:
  /// The operations take `total_ns` together, with what a graph needs between them.
  Step(double total_ns, int operations)
      : each_ns_((total_ns + kGapNs) / operations - kGapNs), left_(operations) {}

  /// Adds operations, which follow the collectives that compute() follows so far.
  Step& compute(std::string const& name, int operations) {
    for (int i = 0; i < operations; ++i, --left_) {
      add({.name = name, .reads = waited_, .writes = {kComputed}}, each_ns_);
    }
    return *this;
  }
  /// Adds a collective. It follows the operations so far, unless it is of the next batch.
  Step& exchange(std::string const& name,
                 Kind kind,
                 double bytes,
                 std::string const& communicator,
                 bool is_ahead = false) {
    auto const result = memories_++;
    add({.name = name,
         .stream = 1,
         .reads = is_ahead ? std::vector<std::size_t>{} : std::vector<std::size_t>{kComputed},
         .writes = {result},
         .collective =
             ms::StepTrace::Collective{kind, static_cast<std::size_t>(bytes), communicator, 1}},
        0);
    results_.push_back(result);
    return *this;
  }
  /// Makes later operations follow the collectives so far.
  Step& wait() {
    waited_ = results_;
    return *this;
  }
  [[nodiscard]] ms::StepTrace trace() const {
    teach::expect(left_ == 0, "all operations of the step are there");
    return {{{.name = "compute"}, {.name = "exchange"}},
            std::vector<std::size_t>(memories_, 0),
            operations_};
  }

 private:
  static constexpr std::size_t kComputed = 0;

  void add(ms::StepTrace::Operation operation, double ns) {
    operation.begin_ns = now_;
    operation.end_ns = now_ += ns;
    operation.sms = operation.collective ? 0 : 132;
    operations_.push_back(std::move(operation));
  }

  double each_ns_;
  int left_;
  double now_ = 0;
  std::size_t memories_ = 1;
  std::vector<std::size_t> results_;
  std::vector<std::size_t> waited_;
  std::vector<ms::StepTrace::Operation> operations_;
};

constexpr double kFloat = 4;
constexpr double kId = 8;

/// 26 tables of width 64 with 10 ids a sample, and layers of 512, 256 and 1, batch 4,096 a rank:
/// the step in two stages of docs/benchmarks.md, in turn, captured, 23 operations in 1.58 ms. Its
/// tables are in parts: ids, pooled rows and their gradients go between the ranks.
constexpr double kTablesNs = 1'578'521;
ms::StepTrace tables_in_parts(bool ids_ahead) {
  constexpr double kBatch = 4096;
  constexpr double kTables = 26;
  constexpr double kInputs = kTables * 64;
  double const ids = kBatch * kTables * (10 + 1) * kId;
  double const rows = kBatch * kInputs * kFloat;
  double const dense = (kInputs * 512 + 512 + 512 * 256 + 256 + 256 + 1) * kFloat;
  Step step(kTablesNs, 23);
  if (!ids_ahead) {
    step.exchange("ids", Kind::all_to_all, ids, "tables").wait();
  }
  step.compute("lookup", 6).exchange("pooled rows", Kind::all_to_all, rows, "tables").wait();
  if (ids_ahead) {
    step.exchange("next ids", Kind::all_to_all, ids, "tables", true);
  }
  step.compute("layers", 5).compute("gradients of layers", 7);
  step.exchange("gradients of rows", Kind::all_to_all, rows, "tables").wait();
  step.exchange("gradients of weights", Kind::all_reduce, dense, "weights");
  return step.compute("update of rows", 4).wait().compute("update of weights", 1).trace();
}

/// `train_ple --form grouped`, batch 512 a rank, 65 operations in 0.451 ms. Its tables are on every
/// rank, so that the gradients of all ranks' rows go to all ranks.
constexpr double kPleNs = 451'000;
ms::StepTrace tables_on_every_rank() {
  constexpr double kLookups = 512 * 26 * 4;
  constexpr double kWidth = 16;
  auto const layer = [](double inputs, double outputs) { return (inputs + 1) * outputs; };
  auto const expert = [&](double inputs) { return layer(inputs, 256) + layer(256, 128); };
  double const dense = 8 * (expert(432) + expert(128)) +  // three tasks and the shared owner
                       3 * layer(432, 4) + layer(432, 8) + 3 * layer(128, 4) +
                       3 * (layer(128, 64) + layer(64, 1));
  Step step(kPleNs, 65);
  step.compute("forward", 20).compute("backward", 40);
  step.exchange("gradients of weights", Kind::all_reduce, dense * kFloat, "weights");
  step.exchange("ids", Kind::all_gather, kLookups * kId, "weights");
  step.exchange("gradients of rows", Kind::all_gather, kLookups * kWidth * kFloat, "weights");
  return step.wait().compute("update", 5).trace();
}

double step_ns(ms::StepTrace const& trace,
               ms::RanksModel model,
               ms::comm::Links const& links = h200_nodes()) {
  model.step.launch = ms::StepModel::Launch::graph;
  return predict(trace, links, model).step_ns;
}

/// Returns the two cells of a step and its efficiency.
std::string cells(double ns, double efficiency) {
  teach::expect(efficiency > 0 && efficiency <= 1, fmt::format("an efficiency of {}", efficiency));
  return fmt::format("{:.2f} | {:.0f}% |", ns / 1e6, 100 * efficiency);
}

void print_steps() {
  std::cout
      << "| GPUs | parts, ms | weak | ids ahead, ms | weak | batch 65,536, ms | strong | every "
         "rank, ms | weak |\n"
         "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  auto const in_parts = tables_in_parts(false);
  auto const ahead = tables_in_parts(true);
  auto const on_every_rank = tables_on_every_rank();
  constexpr double kRows = 65'536 / 4096.0;  // of the batch, as a multiple of the traced one
  auto const of_batch = [&](int ranks) {
    return step_ns(in_parts,
                   {.ranks = ranks, .rows = kRows / ranks, .fixed = {"update of weights"}});
  };
  double const alone = of_batch(1);
  for (int const ranks : {2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    double const parts = step_ns(in_parts, {.ranks = ranks});
    double const with_ids_ahead = step_ns(ahead, {.ranks = ranks});
    double const strong = of_batch(ranks);
    double const every = step_ns(on_every_rank, {.ranks = ranks});
    std::cout << fmt::format("| {} | {} {} {} {}\n",
                             ranks,
                             cells(parts, kTablesNs / parts),
                             cells(with_ids_ahead, kTablesNs / with_ids_ahead),
                             cells(strong, alone / ranks / strong),
                             cells(every, kPleNs / every));
  }
}

void print_sensitivity() {
  auto const trace = tables_in_parts(false);
  auto const print =
      [&](char const* name, ms::comm::Links const& links, ms::StepModel const& step = {}) {
        auto const row = [&](int ranks) {
          auto const ns = step_ns(trace, {.ranks = ranks, .step = step}, links);
          return cells(ns, kTablesNs / ns);
        };
        std::cout << fmt::format("| {} | {} {} {}\n", name, row(2), row(64), row(1024));
      };
  std::cout << "| assumption | 2 GPUs, ms | weak | 64 GPUs, ms | weak | 1,024 GPUs, ms | weak |\n"
               "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  print("as above", h200_nodes());
  auto links = h200_nodes();
  links.between[Kind::all_to_all].bytes_per_ns /= 2;
  print("all-to-all between nodes at half of the bandwidth", links);
  links = h200_nodes();
  links.between[Kind::all_to_all].step_ns *= 4;
  print("a message to another node takes 2 µs in place of 0.5", links);
  links = h200_nodes();
  links.between[Kind::all_to_all].step_ns = 0;
  print("messages to other nodes take nothing but their bytes", links);
  links = h200_nodes();
  links.ranks_per_node = 1;
  print("no NVLink: a GPU a node", links);
  links = h200_nodes();
  for (auto* const speeds : {&links.inside, &links.between}) {
    for (auto& [kind, speed] : *speeds) {
      speed.latency_ns *= 2;
    }
  }
  print("calls take twice as long, inside nodes and between", links);
  print("a change of stream in the graph takes 0.5 µs in place of 9",
        h200_nodes(),
        {.across_streams_ns = kGapNs});
}

}  // namespace

int main() {
  return teach::run([] {
    print_steps();
    std::cout << '\n';
    print_sensitivity();
  });
}
