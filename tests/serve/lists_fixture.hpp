// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/serve_fixture.hpp"

#include <msstream/ops/gather.hpp>
#include <msstream/ops/jagged.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::testing {

/// A query whose rows have lists of keys, with a weight for each key, and dense values; and the
/// memory of its values.
struct AskedLists {
  AskedLists(Random& random, std::vector<std::int64_t> const& lengths)
      : rows(static_cast<std::int64_t>(lengths.size())), dense(random.reals(rows * 3)) {
    for (auto const length : lengths) {
      offsets.push_back(offsets.back() + length);
    }
    keys = random.integers(offsets.back(), -1'000'000, 1'000'000);
    weights = random.reals(offsets.back());
  }
  /// Makes a query of `of_rows` rows, most of whose lists are short, some empty and some long, with
  /// at most `most` keys.
  AskedLists(Random& random, std::int64_t of_rows, std::int64_t most)
      : AskedLists(random, random_lengths(random, of_rows, most)) {}

  [[nodiscard]] Query query() const {
    return {.rows = rows, .values = {{keys, offsets}, weights, dense}};
  }

  static Integers random_lengths(Random& random, std::int64_t rows, std::int64_t most) {
    Integers lengths;
    for (std::int64_t i = 0; i < rows; ++i) {
      auto const kind = random.integer(0, 9);
      auto const length = kind < 3 ? 0 : random.integer(1, kind == 9 ? 40 : 5);
      lengths.push_back(std::min(length, most));
      most -= lengths.back();
    }
    return lengths;
  }

  std::int64_t rows;
  Integers offsets{0};
  Integers keys = {};
  Floats weights = {};
  Floats dense;
};

/// A model of lists whose rows do not depend on each other, and its evaluation without a pool.
template <Runtime R>
struct ListNet {
  static constexpr std::int64_t kPerRow = 4;
  static constexpr std::int64_t kOutputs = 3;
  static constexpr std::int64_t kLongest = 6;  ///< keys of a list of which the order matters
  static constexpr std::int64_t kWidth = Net<R>::kWidth;

  ListNet(Device<R> const& on, int number)
      : net(on, number),
        weights(net.frozen(number + 3, {1, 2 * kWidth + 3})),
        positions(net.frozen(number + 5, {1, kLongest * kWidth})) {}

  [[nodiscard]] static std::vector<serve::Field> inputs() {
    return {serve::jagged_field<std::int64_t>("keys", kPerRow),
            serve::jagged_field<float>("weights", kPerRow, "keys"),
            serve::field<float>("dense", 3)};
  }
  [[nodiscard]] static InferencePoolOptions options() {
    return {.inputs = inputs(), .outputs_per_row = kOutputs, .replicas = 2, .buckets = {4, 16}};
  }

  /// Returns [rows, 3] for keys [capacity] with weights, offsets [rows + 1] and dense [rows, 3].
  [[nodiscard]] Tensor<float, R> forward(Tensor<std::int64_t, R> const& keys,
                                         Tensor<float, R> const& key_weights,
                                         Tensor<std::int64_t, R> const& offsets,
                                         Tensor<float, R> const& dense) const {
    Shape const column{dense.shape()[0], 1};
    auto const ids = ops::hash_to_bucket(keys, Net<R>::kTableRows);
    ops::Bags<R> bags(ids, offsets);
    auto const mean = ops::embedding_lookup(
        net.table, bags, ops::LookupOptions<R>{.pooling = ops::Pooling::mean});
    bags.weights = key_weights;
    auto const sum = ops::embedding_lookup(net.table, bags);
    auto const rows =
        ops::jagged_to_dense(ops::gather_rows(net.table, ids), offsets, kLongest, 0.5F);
    auto const in_order =
        ops::multiply(rows.reshaped({dense.shape()[0], kLongest * kWidth}), positions);
    auto const weighted = ops::multiply(ops::concat<R>({mean, sum, dense}), weights);
    auto const squares = ops::multiply(weighted, weighted);
    return ops::concat<R>({ops::sum(weighted, 1).reshaped(column),
                           ops::sum(squares, 1).reshaped(column),
                           ops::sum(in_order, 1).reshaped(column)});
  }
  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    return forward(inputs.template get<std::int64_t>("keys"),
                   inputs.template get<float>("weights"),
                   inputs.offsets("weights"),
                   inputs.template get<float>("dense"));
  }
  /// Returns the result for a query's rows in tensors of their own size.
  [[nodiscard]] Floats evaluate(AskedLists const& asked) const {
    auto const put = [&]<class T>(std::vector<T> const& values, Shape const& shape) {
      return to_device<T, R>(net.device, values, shape);
    };
    Shape const keys{asked.offsets.back()};
    return to_host(forward(put(asked.keys, keys),
                           put(asked.weights, keys),
                           put(asked.offsets, {asked.rows + 1}),
                           put(asked.dense, {asked.rows, 3})));
  }

  Net<R> net;
  Tensor<float, R> weights;
  Tensor<float, R> positions;
};

}  // namespace msstream::testing
