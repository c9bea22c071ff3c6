// SPDX-License-Identifier: Apache-2.0
#include "rerank_options.hpp"

#include "training/step_report.hpp"
#include "training/step_timeline.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <utility>

namespace train_rerank {

namespace cli = ms::cli;
namespace datasets = ms::datasets;
namespace training = ms::training;
using cli::UsageError;

namespace {

constexpr char const* kDescription =
    "Trains a model that ranks the items of lists by attention: of the user to the items and of "
    "the\n"
    "items to each other, a branch for each pair of feature groups, and a tower a target. Target "
    "t\n"
    "is whether an item's grade is above t. Without --data it trains on generated lists. The "
    "losses\n"
    "are the same bits for any number of groups and any way of launching. The last lists of an\n"
    "epoch that fill no batch are left out; which they are differs from epoch to epoch.";

void check(RerankOptions& options) {
  auto const queries_of = [](std::string const& lists) {
    return lists.empty() ? lists : datasets::queries_path(lists).string();
  };
  training::check(options,
                  {{"--data", options.data},
                   {"--data", queries_of(options.data)},
                   {"--test", options.test},
                   {"--test", queries_of(options.test)}});
  training::check_ranks(options, options.batch);
  training::check_with_ranks(options, options);
  RerankOptions const unchosen;
  if (options.holdout == 1) {
    throw UsageError("--holdout 1 would hold out every list; expected 0 (none) or at least 2");
  }
  if (options.data.empty() && !options.test.empty()) {
    throw UsageError("--test goes with --data");
  }
  if (!options.test.empty() && options.holdout != unchosen.holdout) {
    throw UsageError("--holdout is for data without --test");
  }
  if (!options.data.empty() && options.queries != unchosen.queries) {
    throw UsageError("--queries is for generated data");
  }
  if (!options.data.empty() && options.shape.columns != unchosen.shape.columns) {
    throw UsageError("--columns is for generated data");
  }
}

void add_model_options(cli::Options& options, RerankShape& shape) {
  options.group("Model");
  options.add<int>("--user-groups", shape.user_groups, "groups of the user's features", {1, 1'000});
  options.add<int>("--item-groups", shape.item_groups, "groups of an item's features", {1, 1'000});
  options.add<std::int64_t>("--width", shape.width, "of the attention in a pair", {1, 65536});
  options.add<std::int64_t>(
      "--tower-hidden", shape.tower_hidden, "hidden units of a tower", {1, 65536});
  options.add<int>("--targets", shape.targets, "targets, a tower each", {1, 64});
}

void check_shape(RerankShape const& shape, std::int64_t columns) {
  for (auto const& [name, groups] : {std::pair("--user-groups ", shape.user_groups),
                                     std::pair("--item-groups ", shape.item_groups)}) {
    if (groups > columns) {
      throw UsageError(fmt::format(
          "{}{}: expected at most as many as features, which are {}", name, groups, columns));
    }
  }
}

/// Reads the lists of --data. Appends those of --test, if there is such a file, as the held-out
/// lists.
RerankData read(RerankOptions const& options) {
  auto lists = datasets::read_rank_lists(options.data);
  auto const queries = lists.queries();
  if (options.test.empty()) {
    auto split = datasets::split_rows(queries, options.holdout);
    return {.lists = std::move(lists), .split = std::move(split), .origin = options.data};
  }
  datasets::append(lists, datasets::read_rank_lists(options.test, lists.columns));
  auto split = datasets::split_rows(queries, 0);
  split.held_out.resize(static_cast<std::size_t>(lists.queries() - queries));
  std::iota(split.held_out.begin(), split.held_out.end(), queries);
  return {.lists = std::move(lists),
          .split = std::move(split),
          .origin = fmt::format("{} and {}", options.data, options.test)};
}

RerankData generate(RerankOptions const& options) {
  datasets::GeneratedLists chosen{
      .queries = options.queries, .columns = options.shape.columns, .seed = options.seed};
  chosen.longest = options.list != 0 ? options.list : chosen.longest;
  return {.lists = datasets::generate_rank_lists(chosen),
          .split = datasets::split_rows(options.queries, options.holdout),
          .origin = fmt::format("generated lists, seed {}", options.seed)};
}

std::int64_t count_longer(datasets::RankLists const& lists, std::int64_t places) {
  std::int64_t longer = 0;
  for (std::size_t query = 1; query < lists.offsets.size(); ++query) {
    longer += lists.offsets[query] - lists.offsets[query - 1] > places ? 1 : 0;
  }
  return longer;
}

}  // namespace

RerankOptions RerankOptions::of_rank(int rank) const {
  auto options = *this;
  if (rank != 0) {
    options.silence();
  }
  return options;
}

RerankOptions parse_options(cli::Arguments const& arguments) {
  RerankOptions chosen;
  training::read_library_variables(chosen);
  cli::Options options(
      kDescription,
      {{"train_rerank", "generated lists, two groups of user features by three of item features"},
       {"train_rerank --data rank.train --test rank.test --epochs 10",
        "lists in LibSVM's form; rank.train.query beside has a line a query, its number of items"},
       {"train_rerank --stream-groups 7 --capture --report seven.json",
        "the second step is captured and replayed"},
       {"train_rerank --ranks 4", "4 ranks, each with a quarter of the lists of each batch"},
       {"train_rerank --steps 20 --waits --step-trace step.svg",
        "how many waits a step needs, and a picture of it"}});
  options.group("Data");
  options.add("--data", chosen.data, "lists to train on; generated lists without it", "a path");
  options.add("--test", chosen.test, "lists to test on, in place of --holdout", "a path");
  options.add<std::int64_t>(
      "--queries", chosen.queries, "lists of generated data", {1, 1'000'000'000});
  options.add<std::int64_t>(
      "--columns", chosen.shape.columns, "features of an item of generated data", {1, 1'000'000});
  options.add<std::int64_t>("--list",
                            chosen.list,
                            "places in a list; longer lists are cut, generated ones are of up to "
                            "so many; 0 chooses by the data",
                            {0, 1'000'000});
  options.add<std::int64_t>("--holdout",
                            chosen.holdout,
                            "every how-manieth list is for testing; 0: none",
                            {0, 1'000'000});
  options.add<std::int64_t>(
      "--batch", chosen.batch, "lists a step, of all ranks together", {1, 1 << 20});
  options.add<std::int64_t>(
      "--epochs", chosen.epochs, "passes over the training lists", {1, 100'000});
  add_model_options(options, chosen.shape);
  training::add_options(options, static_cast<training::RankOptions&>(chosen));
  training::add_options(options, static_cast<training::StepOptions&>(chosen));
  options.parse(arguments, std::cerr);
  check(chosen);
  training::open_dashboard(
      chosen,
      {.program = "train_rerank",
       .what = training::placement_text(chosen) + training::data_text(chosen.data) +
               training::timelines_text(chosen.capture, chosen.ranks == 1),
       .unit = "lists",
       .ranks = chosen.ranks},
      chosen.process.rank());
  return chosen.of_rank(chosen.process.rank());
}

nlohmann::ordered_json describe(RerankOptions const& options) {
  nlohmann::ordered_json described = {{"data", options.data},
                                      {"test", options.test},
                                      {"queries", options.queries},
                                      {"columns", options.shape.columns},
                                      {"list", options.list},
                                      {"holdout", options.holdout},
                                      {"batch", options.batch},
                                      {"epochs", options.epochs},
                                      {"user_groups", options.shape.user_groups},
                                      {"item_groups", options.shape.item_groups},
                                      {"width", options.shape.width},
                                      {"tower_hidden", options.shape.tower_hidden},
                                      {"targets", options.shape.targets}};
  described.update(training::describe(static_cast<training::StepOptions const&>(options)));
  described.update(training::describe(static_cast<training::RankOptions const&>(options)));
  return described;
}

RerankData load_data(RerankOptions const& options) {
  auto data = options.data.empty() ? generate(options) : read(options);
  check_shape(options.shape, data.lists.columns);
  auto const training = data.split.training.size();
  if (static_cast<std::int64_t>(training) < options.batch) {
    throw UsageError(fmt::format(
        "{} lists to train on fill no batch; expected a --batch of at most as many, found {}",
        training,
        options.batch));
  }
  auto const longest = data.lists.longest();
  data.places = options.list != 0 ? std::min(options.list, longest) : longest;
  data.cut_lists = count_longer(data.lists, data.places);
  if (data.cut_lists > 0) {
    data.lists = datasets::cut(data.lists, data.places);
  }
  return data;
}

}  // namespace train_rerank
