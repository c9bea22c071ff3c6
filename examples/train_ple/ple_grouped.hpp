// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ple_shape.hpp"
#include "ple_tables.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train_ple {

/// A model of Progressive Layered Extraction (PLE) in few, large operations: all tables are in one
/// tensor, the layers of the experts of a level are stacked, and all gates of a level are one
/// mixture. Independent parts run on different stream groups: the tables on the last one, and each
/// share of a level's experts on the next one from group 0.
template <ms::Runtime R>
class PleGrouped {
 public:
  PleGrouped(ms::Device<R> const& device, PleShape shape, InParts<R> in_parts = {})
      : shape_(std::move(shape)),
        parameters_(device, {.seed = shape_.seed}),
        other_columns_(shape_),
        in_parts_(std::move(in_parts)) {
    if (!in_parts_) {
      make_tables();
    }
    // Returns layers whose stack has the suffix in its name, too.
    auto const layers = [&](std::string const& stack,
                            std::vector<std::string> const& names,
                            std::string const& suffix,
                            std::int64_t inputs,
                            std::int64_t outputs) {
      std::vector<std::string> full;
      full.reserve(names.size());
      for (auto const& name : names) {
        full.push_back(name + suffix);
      }
      return Layer<R>(device, parameters_, stack + suffix, full, inputs, outputs);
    };
    for (int level = 0; level < shape_.levels; ++level) {
      auto const inputs = shape_.inputs_of(level);
      auto& built = levels_.emplace_back();
      for (auto const& share : shares_of(level)) {
        auto const name = fmt::format("level{}/experts{}", level, built.hidden.size());
        built.hidden.push_back(layers(name, share, "/hidden", inputs, shape_.expert_hidden));
        built.outputs.push_back(
            layers(name, share, "/output", shape_.expert_hidden, shape_.expert_outputs));
      }
      std::vector<std::string> of_tasks;
      of_tasks.reserve(static_cast<std::size_t>(shape_.tasks));
      for (int task = 0; task < shape_.tasks; ++task) {
        of_tasks.push_back(gate_name(level, task));
      }
      built.gates.push_back(layers(fmt::format("level{}/gates", level),
                                   of_tasks,
                                   "",
                                   inputs,
                                   std::int64_t{2} * shape_.experts));
      if (!shape_.is_last(level)) {
        built.gates.push_back(layers(fmt::format("level{}/shared_gate", level),
                                     {gate_name(level, shape_.tasks)},
                                     "",
                                     inputs,
                                     std::int64_t{shape_.owners()} * shape_.experts));
      }
    }
    std::vector<std::string> towers;
    towers.reserve(static_cast<std::size_t>(shape_.tasks));
    for (int task = 0; task < shape_.tasks; ++task) {
      towers.push_back(tower_name(task));
    }
    towers_.push_back(
        layers("towers", towers, "/hidden", shape_.expert_outputs, shape_.tower_hidden));
    towers_.push_back(layers("towers", towers, "/output", shape_.tower_hidden, 1));
  }

  /// Returns the loss of a batch: the sum of the tasks' mean losses.
  [[nodiscard]] ms::Tensor<float, R> loss(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          DeviceBatch<R> const& batch) const {
    ms::StreamScope<R> const main(pool[0], {.include_grad = true});
    return loss_of(tape, stacked_logits(tape, pool, batch), batch);
  }
  /// Returns the loss of a batch from its logits, [tasks, batch, 1].
  [[nodiscard]] ms::Tensor<float, R> loss_of(ms::GradientTape<R>& tape,
                                             ms::Tensor<float, R> const& logits,
                                             DeviceBatch<R> const& batch) const {
    ms::NameScope const named("towers");
    auto const mean = ms::ops::mean_bce_with_logits(tape, logits, batch.labels);
    return ms::ops::scale(tape, mean, static_cast<float>(shape_.tasks));
  }

  /// Returns the logits of each task, [batch, 1]. They are views of one tensor, and cannot be
  /// differentiated.
  [[nodiscard]] std::vector<ms::Tensor<float, R>> logits(ms::GradientTape<R>& tape,
                                                         ms::StreamPool<R>& pool,
                                                         DeviceBatch<R> const& batch) const {
    ms::StreamScope<R> const main(pool[0], {.include_grad = true});
    auto const all = stacked_logits(tape, pool, batch);
    std::vector<ms::Tensor<float, R>> of_tasks;
    of_tasks.reserve(static_cast<std::size_t>(shape_.tasks));
    for (int task = 0; task < shape_.tasks; ++task) {
      of_tasks.push_back(all.rows(task, task + 1).reshaped({all.shape()[1], 1}));
    }
    return of_tasks;
  }

  /// Returns the logits of all tasks, [tasks, batch, 1]. `change(input)` is called with the inputs
  /// of the towers, whose type is that of the precision, and returns what they get.
  template <class Change = std::identity>
  [[nodiscard]] ms::Tensor<float, R> stacked_logits(ms::GradientTape<R>& tape,
                                                    ms::StreamPool<R>& pool,
                                                    DeviceBatch<R> const& batch,
                                                    Change const& change = {}) const {
    return ms::with_precision(shape_.precision, [&](auto type) {
      auto const input = inputs_of_towers<typename decltype(type)::type>(tape, pool, batch);
      ms::NameScope const named("towers");
      auto const hidden = towers_[0](tape, change(input), ms::ops::Activation::relu);
      return ms::ops::cast<float>(tape, towers_[1](tape, hidden));
    });
  }

  [[nodiscard]] ms::Parameters<R> const& parameters() const noexcept { return parameters_; }

  [[nodiscard]] InParts<R> const& in_parts() const noexcept { return in_parts_; }

 private:
  void make_tables() {
    auto const rows =
        std::accumulate(shape_.table_rows.begin(), shape_.table_rows.end(), std::int64_t{0});
    tables_.emplace(parameters_.table("tables", {rows, shape_.embedding_dim}, ms::init::zeros()),
                    shape_.table_rows);
    for (std::int64_t field = 0; field < shape_.fields(); ++field) {
      // The values that a table of this name has in the other form, and in parts.
      ms::ops::fill_uniform(tables_->table(field), {shape_.seed, table_name(field)}, -0.05F, 0.05F);
    }
  }

  /// Returns the names of the experts of a level, by share: experts of a share have stacked layers.
  /// On the first level, all experts have the same input, so there is one share. On later levels,
  /// each share has one expert of every owner, in the order of the owners' inputs.
  [[nodiscard]] std::vector<std::vector<std::string>> shares_of(int level) const {
    std::vector<std::vector<std::string>> shares(
        level == 0 ? 1 : static_cast<std::size_t>(shape_.experts));
    for (int k = 0; k < shape_.experts; ++k) {
      for (int owner = 0; owner < shape_.owners(); ++owner) {
        shares[level == 0 ? 0 : static_cast<std::size_t>(k)].push_back(
            expert_name(level, owner, k));
      }
    }
    return shares;
  }
  /// Returns the position of an expert in the order of a level's shares: expert 0 of every owner,
  /// then expert 1 of every owner, and so on.
  [[nodiscard]] int number_of(int owner, int expert) const noexcept {
    return expert * shape_.owners() + owner;
  }

  ms::Tensor<float, R> look_up(ms::GradientTape<R>& tape,
                               ms::StreamPool<R>& pool,
                               DeviceBatch<R> const& batch) const {
    ms::StreamScope<R> const side(pool[pool.groups() - 1], {.include_grad = true});
    ms::NameScope const named("tables");
    if (in_parts_) {
      return look_up_in_parts(*in_parts_, shape_, tape, pool, batch);
    }
    return ms::ops::embedding_lookup(
        tape, *tables_, ms::ops::hash_to_tables(*tables_, batch.keys), ms::ops::Pooling::mean);
  }

  /// Computes the levels with products of type T, and returns the outputs of the last level's
  /// gates, [tasks, batch, outputs].
  template <ms::RealElement T>
  ms::Tensor<T, R> inputs_of_towers(ms::GradientTape<R>& tape,
                                    ms::StreamPool<R>& pool,
                                    DeviceBatch<R> const& batch) const {
    std::vector columns{look_up(tape, pool, batch)};
    other_columns_.append(tape, batch.continuous, columns);
    auto input = ms::ops::cast<T>(tape, ms::ops::concat(tape, columns));
    for (int level = 0; level < shape_.levels; ++level) {
      ms::NameScope const named(fmt::format("level{}", level));
      input = extract(tape, pool, level, input);
    }
    return input;
  }

  /// Computes one level of experts and gates, and returns the outputs of the gates, [gates, batch,
  /// outputs]. `input` is one for all owners of experts, [batch, inputs], or one for each, [owners,
  /// batch, inputs].
  template <ms::RealElement T>
  ms::Tensor<T, R> extract(ms::GradientTape<R>& tape,
                           ms::StreamPool<R>& pool,
                           int level,
                           ms::Tensor<T, R> const& input) const {
    auto const& built = levels_[static_cast<std::size_t>(level)];
    auto const relu = ms::ops::Activation::relu;
    bool const stacked = input.shape().rank() == 3;
    std::vector<ms::Tensor<T, R>> experts;
    for (std::size_t share = 0; share < built.hidden.size(); ++share) {
      ms::StreamScope<R> const scope(pool[static_cast<int>(share) % pool.groups()],
                                     {.include_grad = true});
      ms::NameScope const named(fmt::format("experts{}", share));
      experts.push_back(built.outputs[share](tape, built.hidden[share](tape, input, relu), relu));
    }
    ms::ops::Gates of_tasks;
    std::vector<int> all;
    for (int owner = 0; owner < shape_.owners(); ++owner) {
      auto& chosen = of_tasks.emplace_back();
      for (int k = 0; k < shape_.experts; ++k) {
        chosen.push_back(number_of(owner, k));
        all.push_back(number_of(owner, k));
      }
    }
    auto const shared = of_tasks.back();
    of_tasks.pop_back();
    for (auto& chosen : of_tasks) {
      chosen.insert(chosen.end(), shared.begin(), shared.end());
    }
    std::vector<ms::ops::GateLogits<R>> gates;
    {
      ms::StreamScope<R> const scope(pool[1 % pool.groups()], {.include_grad = true});
      ms::NameScope const named("gates");
      auto const tasks = shape_.tasks;
      auto const of = [&](int first, int end) {
        return stacked ? ms::ops::rows(tape, input, first, end) : input;
      };
      auto const logits = [&](std::size_t gate, auto const& of_gate) {
        return ms::ops::cast<float>(tape, built.gates[gate](tape, of_gate));
      };
      gates.push_back({logits(0, of(0, tasks)), of_tasks});
      if (!shape_.is_last(level)) {
        gates.push_back({logits(1, of(tasks, shape_.owners())), {all}});
      }
    }
    return ms::ops::mix_experts(tape, experts, gates);
  }

  PleShape shape_;
  ms::Parameters<R> parameters_;
  OtherColumns<R> other_columns_;
  InParts<R> in_parts_;
  std::optional<ms::ops::TableBatch<float, R>> tables_;  ///< unless they are in parts
  /// The levels of the model. The hidden and output layers have one entry per share of experts,
  /// whose layers are stacked. The gates have one entry for the tasks and, except on the last
  /// level, one for the shared experts.
  std::vector<Level<R>> levels_;
  std::vector<Layer<R>> towers_;
};

}  // namespace train_ple
