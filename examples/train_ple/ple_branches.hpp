// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ple_shape.hpp"
#include "ple_tables.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace train_ple {

/// A model of Progressive Layered Extraction (PLE) as it is usually written: each field, expert,
/// gate and tower is one operation or a few, in a branch on a stream group.
template <ms::Runtime R>
class PleBranches {
 public:
  PleBranches(ms::Device<R> const& device, PleShape shape, InParts<R> in_parts = {})
      : shape_(std::move(shape)),
        parameters_(device, {.seed = shape_.seed}),
        other_columns_(shape_),
        in_parts_(std::move(in_parts)) {
    for (std::int64_t field = 0; !in_parts_ && field < shape_.fields(); ++field) {
      auto const rows = shape_.table_rows[static_cast<std::size_t>(field)];
      tables_.push_back(parameters_.table(table_name(field), {rows, shape_.embedding_dim}));
    }
    auto const layer = [&](std::string const& name, std::int64_t inputs, std::int64_t outputs) {
      return Layer<R>(parameters_, name, inputs, outputs);
    };
    for (int level = 0; level < shape_.levels; ++level) {
      auto const inputs = shape_.inputs_of(level);
      auto& built = levels_.emplace_back();
      for (int owner = 0; owner < shape_.owners(); ++owner) {
        for (int k = 0; k < shape_.experts; ++k) {
          auto const name = expert_name(level, owner, k);
          built.hidden.push_back(layer(name + "/hidden", inputs, shape_.expert_hidden));
          built.outputs.push_back(
              layer(name + "/output", shape_.expert_hidden, shape_.expert_outputs));
        }
      }
      for (int owner = 0; owner < shape_.gates_of(level); ++owner) {
        auto const mixed = owner < shape_.tasks ? 2 : shape_.owners();
        built.gates.push_back(layer(gate_name(level, owner), inputs, mixed * shape_.experts));
      }
    }
    for (int task = 0; task < shape_.tasks; ++task) {
      tower_hidden_.push_back(
          layer(tower_name(task) + "/hidden", shape_.expert_outputs, shape_.tower_hidden));
      tower_outputs_.push_back(layer(tower_name(task) + "/output", shape_.tower_hidden, 1));
    }
  }

  /// Returns the loss of a batch: the sum of the tasks' mean losses.
  [[nodiscard]] ms::Tensor<float, R> loss(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          DeviceBatch<R> const& batch) const {
    auto const rows = batch.continuous.shape()[0];
    auto const losses = of_tasks(tape, pool, batch, [&](int task, auto const& logits) {
      auto const labels = batch.labels.rows(task, task + 1).reshaped({rows, 1});
      return ms::ops::mean_bce_with_logits(tape, logits, labels);
    });
    return ms::ops::add(tape, losses);
  }

  /// Returns the logits of each task, [batch, 1].
  [[nodiscard]] std::vector<ms::Tensor<float, R>> logits(ms::GradientTape<R>& tape,
                                                         ms::StreamPool<R>& pool,
                                                         DeviceBatch<R> const& batch) const {
    return of_tasks(tape, pool, batch, [](int, auto const& logits) { return logits; });
  }

  [[nodiscard]] ms::Parameters<R> const& parameters() const noexcept { return parameters_; }

  [[nodiscard]] InParts<R> const& in_parts() const noexcept { return in_parts_; }

 private:
  /// Runs the model, and calls `finish(task, logits)` for each task, in the branch of the task's
  /// tower. Returns the results of the calls.
  template <class Finish>
  std::vector<ms::Tensor<float, R>> of_tasks(ms::GradientTape<R>& tape,
                                             ms::StreamPool<R>& pool,
                                             DeviceBatch<R> const& batch,
                                             Finish const& finish) const {
    return ms::with_precision(shape_.precision, [&](auto type) {
      return of_tasks_in<typename decltype(type)::type>(tape, pool, batch, finish);
    });
  }
  /// Runs the model with products of type T.
  template <ms::RealElement T, class Finish>
  std::vector<ms::Tensor<float, R>> of_tasks_in(ms::GradientTape<R>& tape,
                                                ms::StreamPool<R>& pool,
                                                DeviceBatch<R> const& batch,
                                                Finish const& finish) const {
    int branches = 0;
    // Runs `work` as a branch on the next stream group.
    auto const branch = [&](std::string const& name, auto&& work) {
      ms::StreamScope<R> const scope(pool[branches++ % pool.groups()], {.include_grad = true});
      ms::NameScope const named(name);
      return work();
    };
    std::vector<ms::Tensor<float, R>> columns;
    if (in_parts_) {
      columns.push_back(branch(
          "tables", [&] { return look_up_in_parts(*in_parts_, shape_, tape, pool, batch); }));
    }
    for (std::int64_t field = 0; !in_parts_ && field < shape_.fields(); ++field) {
      auto const i = static_cast<std::size_t>(field);
      columns.push_back(branch(fmt::format("field{}", field), [&] {
        return ms::ops::embedding_lookup(
            tape,
            tables_[i],
            ids_of_field(shape_, batch.keys, field),
            ms::ops::LookupOptions<R>{.pooling = ms::ops::Pooling::mean});
      }));
    }
    other_columns_.append(tape, batch.continuous, columns);
    std::vector<ms::Tensor<T, R>> inputs(static_cast<std::size_t>(shape_.owners()),
                                         ms::ops::cast<T>(tape, ms::ops::concat(tape, columns)));
    for (int level = 0; level < shape_.levels; ++level) {
      inputs = extract(tape, branch, level, inputs);
    }
    std::vector<ms::Tensor<float, R>> finished;
    for (int task = 0; task < shape_.tasks; ++task) {
      auto const i = static_cast<std::size_t>(task);
      finished.push_back(branch(tower_name(task), [&] {
        auto const hidden = tower_hidden_[i](tape, inputs[i], ms::ops::Activation::relu);
        return finish(task, ms::ops::cast<float>(tape, tower_outputs_[i](tape, hidden)));
      }));
    }
    return finished;
  }

  /// Computes one level of experts and gates from one input for each owner of experts (a task, or
  /// all tasks together). Returns the outputs of the gates.
  template <ms::RealElement T, class Branch>
  std::vector<ms::Tensor<T, R>> extract(ms::GradientTape<R>& tape,
                                        Branch const& branch,
                                        int level,
                                        std::vector<ms::Tensor<T, R>> const& inputs) const {
    auto const& built = levels_[static_cast<std::size_t>(level)];
    std::vector<ms::Tensor<T, R>> experts;
    for (int owner = 0; owner < shape_.owners(); ++owner) {
      for (int k = 0; k < shape_.experts; ++k) {
        auto const i = experts.size();
        experts.push_back(branch(expert_name(level, owner, k), [&] {
          auto const relu = ms::ops::Activation::relu;
          auto const& input = inputs[static_cast<std::size_t>(owner)];
          return built.outputs[i](tape, built.hidden[i](tape, input, relu), relu);
        }));
      }
    }
    auto const of_owner = [&](std::size_t owner) {
      auto const first = experts.begin() + static_cast<std::ptrdiff_t>(owner) * shape_.experts;
      return std::vector<ms::Tensor<T, R>>(first, first + shape_.experts);
    };
    std::vector<ms::Tensor<T, R>> mixed;
    for (std::size_t owner = 0; owner < built.gates.size(); ++owner) {
      mixed.push_back(branch(gate_name(level, static_cast<int>(owner)), [&] {
        auto const shared = static_cast<std::size_t>(shape_.tasks);
        auto among = owner == shared ? experts : of_owner(owner);
        if (owner != shared) {
          auto const others = of_owner(shared);
          among.insert(among.end(), others.begin(), others.end());
        }
        std::vector<int> all;
        for (std::size_t k = 0; k < among.size(); ++k) {
          all.push_back(static_cast<int>(k));
        }
        auto const logits = ms::ops::cast<float>(tape, built.gates[owner](tape, inputs[owner]));
        auto const output =
            ms::ops::mix_experts(tape, among, std::vector<ms::ops::GateLogits<R>>{{logits, {all}}});
        return output.reshaped({output.shape()[1], output.shape()[2]});
      }));
    }
    return mixed;
  }

  PleShape shape_;
  ms::Parameters<R> parameters_;
  OtherColumns<R> other_columns_;
  InParts<R> in_parts_;
  std::vector<ms::Tensor<float, R>> tables_;  ///< unless they are in parts
  std::vector<Level<R>> levels_;              ///< experts are ordered by owner
  std::vector<Layer<R>> tower_hidden_;
  std::vector<Layer<R>> tower_outputs_;
};

}  // namespace train_ple
