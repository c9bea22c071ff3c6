// SPDX-License-Identifier: Apache-2.0
#include "wdl_options.hpp"

#include "cli/outputs.hpp"
#include "cli/overlap_option.hpp"
#include "cli/precision_option.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>
#include <tuple>

namespace serve_wdl {

namespace cli = ms::cli;
namespace load = ms::load;
using cli::UsageError;

namespace {

constexpr char const* kDescription =
    "Serves a Wide & Deep model from an InferencePool, asks it, and tells how fast it answered.\n"
    "The queries are made beforehand. A closed load has clients that ask, wait and ask again; an\n"
    "open one has queries that arrive at random, whose latency counts from their arrival.";

void check(WdlOptions const& options) {
  load::check(static_cast<load::ServeOptions const&>(options));
  bool const is_open = options.mode == LoadMode::open;
  if (is_open && (options.rate == 0) == (options.load_factor == 0)) {
    throw UsageError(
        "--mode open needs --rate, the queries a second, or --load-factor, so many times the peak, "
        "and not both");
  }
  if (!is_open && (options.rate != 0 || options.load_factor != 0)) {
    throw UsageError(
        "--rate and --load-factor go with --mode open; closed clients ask as fast as they are "
        "served");
  }
  if (is_open && options.in_flight != 1) {
    throw UsageError(
        "--in-flight goes with --mode closed; an open load has in flight what has arrived");
  }
  if (!options.svg.empty() && !options.sweep) {
    throw UsageError("--svg draws what --sweep measures");
  }
  if (options.sweep && !options.overlap.empty()) {
    throw UsageError("--overlap reports on one load: it does not go with --sweep");
  }
  if (options.sweep && (options.baseline_too || options.raw_loop)) {
    throw UsageError("--sweep does not go with --baseline and --raw-loop");
  }
  if (!options.model.empty()) {
    WdlOptions const unchosen;
    auto const of_shape = [](WdlOptions const& its) {
      return std::tuple(its.fields, its.table_rows, its.embedding_dim, its.continuous, its.layers);
    };
    if (of_shape(options) != of_shape(unchosen)) {
      throw UsageError(
          "--fields, --table-rows, --embedding-dim, --continuous and --layers are for random "
          "weights; the file of --model has its own");
    }
  }
  cli::check_outputs(
      {{"--report", options.report}, {"--svg", options.svg}, {cli::kOverlap, options.overlap}},
      {{"--model", options.model}});
}

void add_load_options(cli::Options& options, WdlOptions& chosen) {
  options.group("Load");
  options.add_choice("--mode",
                     chosen.mode,
                     {{"closed", LoadMode::closed}, {"open", LoadMode::open}},
                     "clients that wait for their answers, or arrivals at random");
  options.add<int>("--clients",
                   chosen.clients,
                   "threads that ask; 0: as many as launches fit into the pool, and as many again; "
                   "of an open load a few",
                   {0, 4096});
  options.add<int>(
      "--in-flight",
      chosen.in_flight,
      "queries that a client of a closed load has in flight, of which it waits for the "
      "oldest",
      {1, 65536});
  options.add(
      "--rate", chosen.rate, "queries a second of an open load", cli::Range<double>{0, 1e8});
  options.add("--load-factor",
              chosen.load_factor,
              "the same as so many times the peak, what a closed load reaches, which is measured "
              "before; so are lone queries",
              cli::Range<double>{0, 1000});
  options.add("--seconds",
              chosen.seconds,
              "how long to ask; each client of a closed load asks at least once",
              cli::Range<double>{0.01, 86400});
}

void add_model_options(cli::Options& options, WdlOptions& chosen) {
  options.group("Model");
  options.add("--model", chosen.model, "weights that train_wdl saved; random without it", "a path");
  options.add_choice("--tables",
                     chosen.tables,
                     {{"branches", TableForm::branches}, {"fused", TableForm::fused}},
                     "a hash and two lookups for each field, or one of each for all");
  options.add<std::int64_t>("--fields", chosen.fields, "categorical fields", {1, 60});
  options.add<std::int64_t>("--hotness", chosen.hotness, "keys a field", {1, 1024});
  options.add<std::int64_t>(
      "--table-rows", chosen.table_rows, "rows of each table", {1, 1'000'000'000});
  options.add<std::int64_t>("--embedding-dim", chosen.embedding_dim, "their width", {1, 1024});
  options.add<std::int64_t>("--continuous", chosen.continuous, "continuous values", {0, 4096});
  options.add<std::int64_t>("--layers", chosen.layers, "widths of the hidden layers", {1, 65536});
  cli::add_precision_option(
      options, chosen.precision, "of the layers of the deep part, their weights too");
}

}  // namespace

load::LoadPlan WdlOptions::plan(load::ServeSetting const& setting) const {
  // Chooses the number of client threads of an open load: enough to submit every query on time, and
  // few enough to leave processors free.
  auto const a_few = std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 2, 8);
  constexpr int kMostChosen = 256;
  auto const enough = std::min(2 * setting.replicas * setting.depth, kMostChosen);
  auto const chosen = mode == LoadMode::open ? a_few : enough;
  return {.mode = mode,
          .clients = clients != 0 ? clients : chosen,
          .in_flight = in_flight,
          .rate = rate,
          .length = std::chrono::duration<double>(seconds),
          .deadline = std::chrono::duration<double, std::milli>(deadline_ms),
          .seed = seed,
          .load_factor = load_factor,
          .peak_clients = enough,
          .lone_too = lone || load_factor > 0};
}

WdlOptions parse_options(cli::Arguments const& arguments) {
  WdlOptions chosen;
  load::read_library_variables(chosen);
  cli::Options options(
      kDescription,
      {{"serve_wdl --replicas 16 --tables fused", "16 stream groups, as fast as they answer"},
       {"serve_wdl --mode open --rate 20000 --deadline-ms 5 --report r.json",
        "arrivals at random, and what they wait"},
       {"serve_wdl --model model.safetensors --precision bf16",
        "what train_wdl saved, with the layers in bfloat16"},
       {"serve_wdl --mode open --load-factor 0.5",
        "at half of the peak, beside lone queries; 2 overloads"},
       {"serve_wdl --replicas 8 --baseline --raw-loop",
        "beside one stream without a captured step, and beside a loop by hand"},
       {"serve_wdl --check --swap-ms 20", "other weights all the time, every answer compared"},
       {"serve_wdl --sweep --seconds 2 --svg sweep.svg",
        "what each option brings, on 1 to 16 replicas"}});
  add_load_options(options, chosen);
  add_model_options(options, chosen);
  load::add_options(options, static_cast<load::ServeOptions&>(chosen));
  options.group("Sweep");
  options.add_flag(
      "--sweep",
      chosen.sweep,
      "instead: operations one by one; then with merged streams, pinned memory a "
      "group, a launch thread a group, captured steps, branches, a part of the multiprocessors a "
      "replica, each besides those before");
  options.add<int>(
      "--sweep-replicas", chosen.sweep_replicas, "on how many replicas each", {1, 255});
  options.add("--svg", chosen.svg, "throughput and p99 of the sweep as a picture", "a path");
  options.parse(arguments, std::cerr);
  check(chosen);
  return chosen;
}

nlohmann::ordered_json describe(WdlOptions const& options) {
  nlohmann::ordered_json described = {
      {"mode", options.mode == LoadMode::open ? "open" : "closed"},
      {"clients", options.plan().clients},
      {"in_flight", options.in_flight},
      {"rate", options.rate},
      {"load_factor", options.load_factor},
      {"seconds", options.seconds},
      {"model", options.model},
      {"tables", options.tables == TableForm::fused ? "fused" : "branches"},
      {"precision", cli::name_of(options.precision)},
      {"hotness", options.hotness}};
  if (options.model.empty()) {
    described.update({{"fields", options.fields},
                      {"table_rows", options.table_rows},
                      {"embedding_dim", options.embedding_dim},
                      {"continuous", options.continuous},
                      {"layers", options.layers}});
  }
  described.update(load::describe(static_cast<load::ServeOptions const&>(options)));
  return described;
}

}  // namespace serve_wdl
