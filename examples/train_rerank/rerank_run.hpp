// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "query_reader.hpp"
#include "ranking_quality.hpp"
#include "rerank_model.hpp"
#include "rerank_options.hpp"
#include "training/epoch_plan.hpp"
#include "training/ranks.hpp"
#include "training/step_run.hpp"

#include <msstream/data/loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace train_rerank {

inline RerankShape shape_of(RerankOptions const& options, RerankData const& data) {
  auto shape = options.shape;
  shape.columns = data.lists.columns;
  shape.seed = options.seed;
  return shape;
}

/// Returns the plan of the batches, which all have one size, so that a captured step fits them all.
inline ms::training::EpochPlan plan_of(RerankOptions const& options, RerankData const& data) {
  return {.rows = static_cast<std::int64_t>(data.split.training.size()),
          .loader = {.batch_size = options.batch,
                     .epochs = options.epochs,
                     .shuffle_rows = ms::data::kWholeEpoch,
                     .seed = options.seed,
                     .last_batch = ms::data::LastBatch::dropped,
                     .threads = 1}};
}

/// Trains the reranking model, tests it before training and after each epoch, and reports the
/// results. One rank of a training on several, each of which tests on all lists.
template <ms::Runtime R>
class RerankTraining {
 public:
  RerankTraining(RerankOptions const& options, RerankData const& data, ms::comm::World const& world)
      : options_(options),
        data_(data),
        shape_(shape_of(options, data)),
        plan_(plan_of(options, data)),
        run_(options,
             last_step(),
             Build{options, data},
             "lists",
             {.world = world, .parallel = options.parallel, .reproducible = options.reproducible}),
        training_(run_.training()) {
    for (auto const& loader : training_.ranks().loaders_of_parts(plan_.loader)) {
      queries_.emplace_back(std::make_unique<QueryReader>(data.split.training), loader);
    }
  }

  nlohmann::ordered_json run() {
    auto const before = test();
    print("before training", before);
    std::deque<Feed> feeds;  // of this rank's parts of a batch
    for (auto& queries : queries_) {
      feeds.emplace_back(training_.pool()[0], [this, &queries] { return upload(queries); });
    }
    auto epochs = nlohmann::ordered_json::array();
    while (!run_.is_over()) {
      epochs.push_back(train_epoch(feeds));
    }
    auto report = run_.report();
    report["options"] = describe(options_);
    report["before"] = before;
    report["epochs"] = std::move(epochs);
    return report;
  }

 private:
  using Feed = ms::Prefetch<R, DeviceBatch<R>>;
  using Inputs = ms::training::BatchesOfParts<DeviceBatch<R>>;

  struct Build {
    RerankOptions const& options;
    RerankData const& data;

    std::pair<RerankModel<R>, Inputs> operator()(ms::Device<R> const& device) const {
      auto const shape = shape_of(options, data);
      auto const first = std::span(data.split.training)
                             .first(static_cast<std::size_t>(options.batch / options.parts()));
      Inputs inputs;
      for (int part = 0; part < options.parts() / options.ranks; ++part) {
        inputs.batches.emplace_back(device, gather(data.lists, first, data.places, shape), shape);
      }
      return {RerankModel<R>(device, shape), std::move(inputs)};
    }
  };

  [[nodiscard]] std::int64_t last_step() const {
    auto const all = plan_.batch_count();
    return options_.steps != 0 ? std::min(options_.steps, all) : all;
  }

  /// Returns the next batch of a loader, on the device; empty after the last one.
  std::optional<DeviceBatch<R>> upload(ms::data::Loader& queries) {
    auto const batch = queries.next();
    if (!batch) {
      return std::nullopt;
    }
    ms::NameScope const named("feed");
    return DeviceBatch<R>(training_.device(),
                          gather(data_.lists, batch->ints("query"), data_.places, shape_),
                          shape_);
  }

  nlohmann::ordered_json train_epoch(std::deque<Feed>& feeds) {
    auto result = run_.train_epoch(plan_, [&](Inputs const& inputs) {
      for (std::size_t part = 0; part < feeds.size(); ++part) {
        auto const batch = feeds[part].next().value();
        ms::NameScope const named("feed");
        overwrite(inputs.batches[part], batch);
      }
    });
    result.update(test());
    if (!result["test_ndcg10"].is_null()) {
      run_.feed().note_metric("test NDCG@10", result["test_ndcg10"].template get<double>());
    }
    print(fmt::format("epoch {}", result["epoch"].template get<std::int64_t>()), result);
    return result;
  }

  /// Returns the loss and the NDCG on the held-out lists.
  nlohmann::ordered_json test() {
    typename ms::GradientTape<R>::Pause const no_gradients(training_.tape());
    auto const held_out = std::span(data_.split.held_out);
    auto const batch_lists = static_cast<std::size_t>(options_.batch);
    RankingQuality<R> quality(training_.device(), shape_.targets);
    for (std::size_t first = 0; first < held_out.size(); first += batch_lists) {
      auto const queries = held_out.subspan(first, std::min(batch_lists, held_out.size() - first));
      auto const batch = gather(data_.lists, queries, data_.places, shape_);
      auto const logits = training_.model().logits(
          training_.tape(), training_.pool(), DeviceBatch<R>(training_.device(), batch, shape_));
      quality.add(data_.lists, queries, batch, logits);
    }
    auto const number = [](std::optional<double> const& value) {
      return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
    };
    return {{"test_loss", number(quality.loss())}, {"test_ndcg10", number(quality.ndcg())}};
  }

  /// Prints those of the losses, the NDCG and the speed that `result` contains.
  void print(std::string const& when, nlohmann::ordered_json const& result) const {
    if (options_.quiet) {
      return;
    }
    std::string line;
    char const* separator = ": ";
    for (auto const& [key, name] : {std::pair("loss", "loss "),
                                    std::pair("test_loss", "test loss "),
                                    std::pair("test_ndcg10", "NDCG@10 ")}) {
      if (auto const found = result.find(key); found != result.end() && !found->is_null()) {
        line += fmt::format("{}{}{}",
                            std::exchange(separator, ", "),
                            name,
                            ms::report::fixed(found->template get<double>(), 4));
      }
    }
    if (auto const found = result.find("lists_per_s"); found != result.end()) {
      auto const rate = static_cast<std::int64_t>(found->template get<double>());
      line += fmt::format("{}{} lists/s", separator, ms::report::grouped(rate));
    }
    if (!line.empty()) {
      ms::cli::print(fmt::format("{}{}\n", when, line));
    }
  }

  RerankOptions const& options_;
  RerankData const& data_;
  RerankShape shape_;
  ms::training::EpochPlan plan_;
  ms::training::StepRun<R, Build> run_;
  typename ms::training::StepRun<R, Build>::Training& training_;
  std::deque<ms::data::Loader> queries_;  ///< of the lists of this rank's parts of each batch
};

template <ms::Runtime R>
nlohmann::ordered_json train_rerank_on(RerankOptions const& options,
                                       RerankData const& data,
                                       ms::comm::World const& world) {
  return RerankTraining<R>(options, data, world).run();
}

}  // namespace train_rerank
