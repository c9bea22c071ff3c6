// SPDX-License-Identifier: Apache-2.0
#include "training/rank_options.hpp"

#include <msstream/comm/communicator.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/host.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace msstream::training {

namespace {

constexpr int kMostRanks = 1024;

[[nodiscard]] comm::World world_of_process() {
  try {
    return comm::World::from_environment();
  } catch (std::invalid_argument const& error) {
    throw cli::UsageError(error.what());
  }
}

/// Returns the numbers up to `parts` that divide it, a power of two, such as "1, 2, 4 or 8".
[[nodiscard]] std::string divisors_text(int parts) {
  std::string text = "1";
  for (int divisor = 2; divisor <= parts; divisor *= 2) {
    text += fmt::format("{}{}", divisor == parts ? " or " : ", ", divisor);
  }
  return text;
}

}  // namespace

std::string_view name_of(Parallel parallel) {
  switch (parallel) {
    case Parallel::data:
      return "data";
    case Parallel::half_batches:
      return "half_batches";
    case Parallel::sharded:
      return "sharded";
  }
  return "unknown";
}

std::string_view name_of(Lookahead lookahead) {
  switch (lookahead) {
    case Lookahead::none:
      return "none";
    case Lookahead::ids:
      return "ids";
    case Lookahead::rows:
      return "rows";
    case Lookahead::stale_rows:
      return "stale_rows";
  }
  return "unknown";
}

void add_options(cli::Options& options, RankOptions& chosen, TablesInParts tables) {
  options.group("Ranks");
  options.add<int>("--ranks",
                   chosen.ranks,
                   "that train together, as threads of this process, on CUDA each with a GPU; 0: "
                   "the processes that torchrun, mpirun or srun has started, otherwise one",
                   {0, kMostRanks});
  std::vector<std::pair<std::string, Parallel>> ways = {{"data", Parallel::data},
                                                        {"half_batches", Parallel::half_batches}};
  std::string purpose =
      "how ranks divide the work: by the rows of each batch; half_batches: those of a rank in two "
      "halves, whose collectives run beside each other's computation";
  if (tables == TablesInParts::yes) {
    ways.emplace_back("sharded", Parallel::sharded);
    purpose += "; sharded: as data, with the tables in parts on all ranks";
  }
  options.add_choice("--parallel", chosen.parallel, std::move(ways), purpose);
  options.add_choice("--reproducible",
                     chosen.reproducible,
                     {{"same_rank_count", Reproducible::same_rank_count},
                      {"any_rank_count", Reproducible::any_rank_count}},
                     "whether 1, 2, 4 and 8 ranks give the same bits; slower");
  if (tables == TablesInParts::yes) {
    options.add("--plan",
                chosen.plan,
                "JSON file of the parts of --parallel sharded; chosen and written if there is none",
                "a path");
    options.add_choice("--lookahead",
                       chosen.lookahead,
                       {{"none", Lookahead::none},
                        {"ids", Lookahead::ids},
                        {"rows", Lookahead::rows},
                        {"stale_rows", Lookahead::stale_rows}},
                       "what --parallel sharded sends for the next batch beside the dense part of "
                       "this one. ids: its ids; rows: its ids, and its rows that this batch does "
                       "not move; stale_rows: its ids and all its rows, one step stale");
  }
}

void check_ranks(RankOptions& chosen, std::int64_t batch) {
  chosen.process = world_of_process();
  if (chosen.are_processes() && chosen.ranks != 0 && chosen.ranks != chosen.process.size()) {
    throw cli::UsageError(fmt::format("--ranks {}: this process is {}; expected {}, or no --ranks",
                                      chosen.ranks,
                                      comm::to_string(chosen.process),
                                      chosen.process.size()));
  }
  if (chosen.are_processes()) {
    chosen.ranks = chosen.process.size();
  } else if (chosen.ranks == 0) {
    chosen.ranks = 1;
  }
  if (chosen.parallel == Parallel::half_batches &&
      chosen.reproducible == Reproducible::any_rank_count) {
    throw cli::UsageError(
        "--parallel half_batches: does not go with --reproducible any_rank_count, since the halves "
        "are those of a number of ranks; expected same_rank_count");
  }
  if (chosen.parallel == Parallel::sharded && chosen.reproducible == Reproducible::any_rank_count) {
    throw cli::UsageError(
        "--parallel sharded: does not go with --reproducible any_rank_count, since a rank looks up "
        "one part of each batch; expected same_rank_count");
  }
  if (chosen.parallel != Parallel::sharded) {
    for (auto const& [is_chosen, option] :
         {std::pair(!chosen.plan.empty(), std::string("--plan")),
          std::pair(chosen.lookahead != Lookahead::none,
                    fmt::format("--lookahead {}", name_of(chosen.lookahead)))}) {
      if (is_chosen) {
        throw cli::UsageError(fmt::format("{}: goes with --parallel sharded, found --parallel {}",
                                          option,
                                          name_of(chosen.parallel)));
      }
    }
  }
  auto const parts = chosen.parts();
  if (chosen.ranks > parts || parts % chosen.ranks != 0) {
    throw cli::UsageError(fmt::format("--reproducible any_rank_count on {} ranks; expected {}",
                                      chosen.ranks,
                                      divisors_text(parts)));
  }
  if (batch % parts != 0) {
    throw cli::UsageError(
        fmt::format("--batch {}: rows of all ranks together; expected a multiple of {}, the {}",
                    batch,
                    parts,
                    chosen.parallel == Parallel::half_batches ? "halves of all ranks"
                    : parts == chosen.ranks                   ? "number of ranks"
                                            : "parts of --reproducible any_rank_count"));
  }
}

void refuse_with_ranks(RankOptions const& chosen,
                       std::vector<std::pair<bool, std::string>> const& options) {
  for (auto const& [is_chosen, text] : options) {
    if (is_chosen && chosen.ranks > 1) {
      throw cli::UsageError(fmt::format("{}; expected one rank, found {}", text, chosen.ranks));
    }
  }
}

void require_devices([[maybe_unused]] RankOptions const& chosen,
                     [[maybe_unused]] cli::StreamOptions const& streams) {
#if MSSTREAM_CUDA
  if (streams.runtime != cli::RuntimeChoice::cuda || chosen.ranks == 1) {
    return;
  }
  auto const gpus = Cuda::device_count();
  if (!chosen.are_processes() && chosen.ranks > gpus) {
    throw cli::UsageError(
        fmt::format("--ranks {}: each rank needs a GPU of its own; expected 1 to {}, the GPUs of "
                    "this machine, or --runtime host",
                    chosen.ranks,
                    gpus));
  }
  if (chosen.are_processes() && gpus > 1 && chosen.process.local_rank() >= gpus) {
    throw cli::UsageError(fmt::format(
        "{}: each rank needs a GPU of its own, and this machine has {}; start at most as many "
        "ranks, or choose --runtime host",
        comm::to_string(chosen.process),
        gpus));
  }
#endif
}

void require_equal_options(RankOptions const& chosen, nlohmann::ordered_json const& described) {
  if (!chosen.are_processes()) {
    return;
  }
  Device<Host> const device;
  comm::Communicator<Host> const processes(device, chosen.process, {.name = "options"});
  std::vector<nlohmann::ordered_json> all;
  for (auto const& text : processes.exchange(described.dump())) {
    all.push_back(nlohmann::ordered_json::parse(text));
  }
  std::string differences;
  for (auto const& [name, of_first] : all.front().items()) {
    // Files may have other paths on other hosts.
    constexpr std::array kPaths = {"data", "test", "save", "resume", "plan"};
    bool const is_path = std::find(kPaths.begin(), kPaths.end(), name) != kPaths.end();
    for (std::size_t rank = 1; !is_path && rank < all.size(); ++rank) {
      if (all[rank][name] != of_first) {
        auto option = name;
        std::replace(option.begin(), option.end(), '_', '-');
        differences += fmt::format("{}--{} is {} on rank 0 and {} on rank {}",
                                   differences.empty() ? "" : ", ",
                                   option,
                                   of_first.dump(),
                                   all[rank][name].dump(),
                                   rank);
        break;
      }
    }
  }
  if (!differences.empty()) {
    throw cli::UsageError("the processes have different options: " + differences);
  }
}

nlohmann::ordered_json describe(RankOptions const& chosen) {
  nlohmann::ordered_json described = {{"ranks", chosen.ranks},
                                      {"parallel", name_of(chosen.parallel)},
                                      {"reproducible", name_of(chosen.reproducible)}};
  if (chosen.parallel == Parallel::sharded) {
    described.update({{"plan", chosen.plan}, {"lookahead", name_of(chosen.lookahead)}});
  }
  return described;
}

std::string ranks_text(RankOptions const& chosen) {
  return chosen.ranks == 1 ? ""
                           : fmt::format("; {} ranks, which are {}",
                                         chosen.ranks,
                                         chosen.are_processes() ? "processes" : "threads");
}

nlohmann::ordered_json on_ranks(
    RankOptions const& chosen,
    std::function<nlohmann::ordered_json(comm::World const&)> const& train) {
  nlohmann::ordered_json report;
  auto const train_one = [&](comm::World const& world) {
    auto own = train(world);
    if (world.rank() == 0) {
      report = std::move(own);
    }
  };
  if (chosen.are_processes() || chosen.ranks == 1) {
    train_one(chosen.process);
    return report;
  }
  try {
    comm::run_as_threads(chosen.ranks, train_one);
  } catch (comm::PeerLost const& lost) {
    std::rethrow_if_nested(lost);
    throw;
  }
  return report;
}

void add_plan(RankOptions const& chosen,
              std::vector<cli::InputOption>& inputs,
              std::vector<cli::OutputOption>& outputs) {
  if (std::filesystem::exists(chosen.plan)) {
    inputs.push_back({"--plan", chosen.plan});
  } else {
    outputs.push_back({"--plan", chosen.plan, OutputFile::Kind::regular});
  }
}

}  // namespace msstream::training
