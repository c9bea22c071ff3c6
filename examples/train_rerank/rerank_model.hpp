// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rerank_batch.hpp"
#include "rerank_shape.hpp"
#include "training/layer.hpp"

#include <msstream/msstream.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace train_rerank {

/// Ranks the items of lists. Each pair of a user group and an item group is a branch with weights
/// of its own:
///
///     context = attention of the user to the items              [queries, 1, width]
///     x       = items W + context                               [queries, items, width]
///     y       = layer norm of x + attention of x to itself      [queries, items, width]
///
/// The y of all pairs, side by side, are the input of one tower per target, which is also a branch
/// and gives each item its logit. The loss is the sum over the targets of the binary cross-entropy,
/// as the mean over the items of a list and then over the lists.
template <ms::Runtime R>
class RerankModel {
 public:
  using Values = ms::Tensor<float, R>;
  using Batch = DeviceBatch<R>;

  RerankModel(ms::Device<R> const& device, RerankShape const& shape)
      : shape_(shape), parameters_(device, {.seed = shape.seed}) {
    auto const layer = [&](std::string const& name, std::int64_t inputs, std::int64_t outputs) {
      return ms::training::Layer<R>(parameters_, name, inputs, outputs);
    };
    auto const width = shape_.width;
    for (int user = 0; user < shape_.user_groups; ++user) {
      for (int item = 0; item < shape_.item_groups; ++item) {
        auto const name = pair_name(user, item);
        auto const user_columns = shape_.user_columns(user).count();
        auto const item_columns = shape_.item_columns(item).count();
        pairs_.push_back({{layer(name + "/user/query", user_columns, width),
                           layer(name + "/user/key", item_columns, width),
                           layer(name + "/user/value", item_columns, width)},
                          {layer(name + "/items/query", width, width),
                           layer(name + "/items/key", width, width),
                           layer(name + "/items/value", width, width)},
                          parameters_.dense(name + "/gamma", {width}, ms::init::ones()),
                          parameters_.dense(name + "/beta", {width}, ms::init::zeros())});
      }
    }
    for (int target = 0; target < shape_.targets; ++target) {
      auto const name = target_name(target);
      towers_.push_back({layer(name + "/hidden", shape_.pairs() * width, shape_.tower_hidden),
                         layer(name + "/output", shape_.tower_hidden, 1)});
    }
  }

  /// Returns the logits of each target, [queries, items]. Positions beyond a list's length have
  /// logits, too.
  [[nodiscard]] std::vector<Values> logits(ms::GradientTape<R>& tape,
                                           ms::StreamPool<R>& pool,
                                           Batch const& batch) const {
    return of_targets(tape, pool, batch, [](int, Values const& logits) { return logits; });
  }

  /// Returns the loss of a batch, a scalar.
  [[nodiscard]] Values loss(ms::GradientTape<R>& tape,
                            ms::StreamPool<R>& pool,
                            Batch const& batch) const {
    auto const& shape = batch.labels.shape();
    // Gives equal weights to the items of a list, and weight 0 to the padding after them.
    auto const weights =
        ms::ops::softmax(ms::zeros<float>(tape.device(), {shape[1], shape[2]}), batch.lengths);
    tape.without_gradient(weights);
    return ms::ops::add(
        tape, of_targets(tape, pool, batch, [&](int target, Values const& logits) {
          auto const labels = batch.labels.rows(target, target + 1).reshaped(logits.shape());
          auto const losses = ms::ops::bce_with_logits(tape, logits, labels);
          return ms::ops::mean(tape,
                               ms::ops::sum(tape, ms::ops::multiply(tape, losses, weights), 1));
        }));
  }

  [[nodiscard]] ms::Parameters<R> const& parameters() const noexcept { return parameters_; }

 private:
  struct Projections {
    ms::training::Layer<R> query;
    ms::training::Layer<R> key;
    ms::training::Layer<R> value;
  };
  struct Pair {
    Projections user;   ///< for the attention of the user to the items
    Projections items;  ///< for the attention of the items to each other
    Values gamma;
    Values beta;
  };
  struct Tower {
    ms::training::Layer<R> hidden;
    ms::training::Layer<R> output;
  };

  /// Applies a dense layer to the last dimension of a tensor [queries, items, inputs].
  static Values of_items(ms::GradientTape<R>& tape,
                         ms::training::Layer<R> const& layer,
                         Values const& items) {
    auto const& shape = items.shape();
    auto const rows = layer(tape, items.reshaped({shape[0] * shape[1], shape[2]}));
    return rows.reshaped({shape[0], shape[1], rows.shape()[1]});
  }

  /// Computes the branch of one pair of a user group and an item group. Returns its output,
  /// [queries * items, width].
  Values attend(ms::GradientTape<R>& tape,
                Pair const& pair,
                Values const& user,
                Values const& items,
                ms::Tensor<std::int64_t, R> const& lengths) const {
    tape.without_gradient(user);
    tape.without_gradient(items);
    auto const with_context = [&] {
      ms::NameScope const named("user_to_items");
      auto const queries = user.shape()[0];
      auto const query = pair.user.query(tape, user).reshaped({queries, 1, shape_.width});
      auto const values = of_items(tape, pair.user.value, items);
      auto const context = ms::ops::attention(
          tape, query, of_items(tape, pair.user.key, items), values, {.lengths = lengths});
      return ms::ops::add(tape, values, context);
    }();
    ms::NameScope const named("items_to_items");
    auto const attended = ms::ops::attention(tape,
                                             of_items(tape, pair.items.query, with_context),
                                             of_items(tape, pair.items.key, with_context),
                                             of_items(tape, pair.items.value, with_context),
                                             {.lengths = lengths});
    auto const normal = ms::ops::layer_norm(
        tape, ms::ops::add(tape, with_context, attended), pair.gamma, pair.beta);
    return normal.reshaped({normal.count() / shape_.width, shape_.width});
  }

  /// Runs the model, and calls `finish(target, logits)` for each target, in the target's branch.
  /// Returns the results of the calls.
  template <class Finish>
  std::vector<Values> of_targets(ms::GradientTape<R>& tape,
                                 ms::StreamPool<R>& pool,
                                 Batch const& batch,
                                 Finish const& finish) const {
    int branches = 0;
    // Runs `work` as a branch on the next stream group.
    auto const branch = [&](std::string const& name, auto&& work) {
      ms::StreamScope<R> const scope(pool[branches++ % pool.groups()], {.include_grad = true});
      ms::NameScope const named(name);
      return work();
    };
    std::vector<Values> columns;
    for (std::size_t user = 0; user < batch.users.size(); ++user) {
      for (std::size_t item = 0; item < batch.items.size(); ++item) {
        auto const& pair = pairs_[user * batch.items.size() + item];
        columns.push_back(branch(pair_name(static_cast<int>(user), static_cast<int>(item)), [&] {
          return attend(tape, pair, batch.users[user], batch.items[item], batch.lengths);
        }));
      }
    }
    auto const joined = ms::ops::concat(tape, columns);
    auto const& shape = batch.labels.shape();
    std::vector<Values> results;
    for (int target = 0; target < shape_.targets; ++target) {
      auto const& tower = towers_[static_cast<std::size_t>(target)];
      results.push_back(branch(target_name(target), [&] {
        auto const hidden = tower.hidden(tape, joined, ms::ops::Activation::relu);
        return finish(target, tower.output(tape, hidden).reshaped({shape[1], shape[2]}));
      }));
    }
    return results;
  }

  RerankShape shape_;
  ms::Parameters<R> parameters_;
  std::vector<Pair> pairs_;  ///< ordered by user group
  std::vector<Tower> towers_;
};

}  // namespace train_rerank
