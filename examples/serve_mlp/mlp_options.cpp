// SPDX-License-Identifier: Apache-2.0
#include "mlp_options.hpp"

#include "cli/outputs.hpp"
#include "cli/overlap_option.hpp"

#include <nlohmann/json.hpp>

#include <iostream>

namespace serve_mlp {

namespace cli = ms::cli;
namespace load = ms::load;
using cli::UsageError;

namespace {

constexpr char const* kDescription =
    "Serves a multilayer perceptron to a few threads, each of which asks, waits for the answer "
    "and\n"
    "asks again: the inference example of NVIDIA's multi-stream TensorFlow.";

void check(MlpOptions const& options) {
  load::check(static_cast<load::ServeOptions const&>(options));
  if (options.layers.size() < 2) {
    throw UsageError("--layers: expected at least two widths, of the inputs and of the outputs");
  }
  cli::check_outputs({{"--report", options.report}, {cli::kOverlap, options.overlap}});
}

}  // namespace

MlpOptions parse_options(cli::Arguments const& arguments) {
  MlpOptions chosen;
  load::read_library_variables(chosen);
  cli::Options options(
      kDescription,
      {{"serve_mlp", "4 threads, 1000 queries each, on 4 replicas"},
       {"serve_mlp --baseline", "and what one stream does without a captured step"},
       {"serve_mlp --replicas 8 --threads 16 --check --report r.json",
        "every answer compared with a lone run's"}});
  options.group("Load");
  options.add<int>("--threads", chosen.threads, "threads that ask", {1, 1024});
  options.add<std::int64_t>(
      "--iterations", chosen.iterations, "queries of each thread", {1, 1'000'000'000});
  options.group("Model");
  options.add<std::int64_t>(
      "--layers", chosen.layers, "widths: inputs, hidden layers, outputs", {1, 65536});
  load::add_options(options, static_cast<load::ServeOptions&>(chosen));
  options.parse(arguments, std::cerr);
  check(chosen);
  return chosen;
}

nlohmann::ordered_json describe(MlpOptions const& options) {
  nlohmann::ordered_json described = {
      {"threads", options.threads}, {"iterations", options.iterations}, {"layers", options.layers}};
  described.update(load::describe(static_cast<load::ServeOptions const&>(options)));
  return described;
}

}  // namespace serve_mlp
