// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"
#include "rerank_batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace msstream::testing {

/// A reference for the reranking model, computed in double, list by list, from the definition.
class RerankReference {
 public:
  using Parameters = std::map<std::string, Doubles>;

  RerankReference(train_rerank::RerankShape const& shape, Parameters parameters)
      : shape_(shape), parameters_(std::move(parameters)) {}

  /// Returns the logits of a batch, in the order [targets][queries][items].
  [[nodiscard]] Doubles logits(train_rerank::HostBatch const& batch) const {
    auto const queries = static_cast<std::size_t>(batch.queries);
    auto const items = static_cast<std::size_t>(batch.items);
    Doubles all(static_cast<std::size_t>(shape_.targets) * queries * items);
    for (std::size_t q = 0; q < queries; ++q) {
      Rows joined(items);
      for (int user = 0; user < shape_.user_groups; ++user) {
        for (int item = 0; item < shape_.item_groups; ++item) {
          auto const parts =
              pair(train_rerank::pair_name(user, item),
                   slice(batch.users[static_cast<std::size_t>(user)], q, queries),
                   rows_of(slice(batch.listed[static_cast<std::size_t>(item)], q, queries), items),
                   static_cast<std::size_t>(batch.lengths[q]));
          for (std::size_t i = 0; i < items; ++i) {
            joined[i].insert(joined[i].end(), parts[i].begin(), parts[i].end());
          }
        }
      }
      for (int target = 0; target < shape_.targets; ++target) {
        auto const name = train_rerank::target_name(target);
        for (std::size_t i = 0; i < items; ++i) {
          auto hidden = dense(name + "/hidden", joined[i]);
          for (auto& value : hidden) {
            value = std::max(value, 0.0);
          }
          all[(static_cast<std::size_t>(target) * queries + q) * items + i] =
              dense(name + "/output", hidden)[0];
        }
      }
    }
    return all;
  }

  [[nodiscard]] double loss(train_rerank::HostBatch const& batch) const {
    auto const all = logits(batch);
    double total = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
      auto const q = k / static_cast<std::size_t>(batch.items) % batch.lengths.size();
      if (static_cast<std::int64_t>(k) % batch.items < batch.lengths[q]) {
        double const p = 1 / (1 + std::exp(-all[k]));
        double const label = batch.labels[k];
        total -= (label * std::log(p) + (1 - label) * std::log(1 - p)) /
                 static_cast<double>(batch.lengths[q] * batch.queries);
      }
    }
    return total;
  }

 private:
  using Rows = std::vector<Doubles>;

  static Doubles slice(Floats const& values, std::size_t number, std::size_t count) {
    auto const length = values.size() / count;
    auto const all = to_doubles(values);
    auto const first = all.begin() + static_cast<std::ptrdiff_t>(number * length);
    return {first, first + static_cast<std::ptrdiff_t>(length)};
  }
  static Rows rows_of(Doubles const& values, std::size_t count) {
    Rows rows(count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      rows[i * count / values.size()].push_back(values[i]);
    }
    return rows;
  }
  [[nodiscard]] Doubles dense(std::string const& name, Doubles const& input) const {
    auto const& weight = parameters_.at(name + "/weight");
    auto output = parameters_.at(name + "/bias");
    for (std::size_t i = 0; i < input.size(); ++i) {
      for (std::size_t o = 0; o < output.size(); ++o) {
        output[o] += input[i] * weight[i * output.size() + o];
      }
    }
    return output;
  }
  [[nodiscard]] Rows dense(std::string const& name, Rows const& inputs) const {
    Rows outputs;
    for (auto const& input : inputs) {
      outputs.push_back(dense(name, input));
    }
    return outputs;
  }
  /// Computes attention to the first `length` keys only.
  static Doubles attention(Doubles const& query,
                           Rows const& keys,
                           Rows const& values,
                           std::size_t length) {
    Doubles sum(values[0].size(), 0.0);
    double normaliser = 0;
    for (std::size_t k = 0; k < length; ++k) {
      double product = 0;
      for (std::size_t c = 0; c < query.size(); ++c) {
        product += query[c] * keys[k][c];
      }
      double const score = std::exp(product / std::sqrt(static_cast<double>(query.size())));
      normaliser += score;
      for (std::size_t c = 0; c < sum.size(); ++c) {
        sum[c] += score * values[k][c];
      }
    }
    for (auto& value : sum) {
      value = length == 0 ? 0.0 : value / normaliser;
    }
    return sum;
  }
  [[nodiscard]] Rows pair(std::string const& name,
                          Doubles const& user,
                          Rows const& items,
                          std::size_t length) const {
    auto x = dense(name + "/user/value", items);
    auto const context =
        attention(dense(name + "/user/query", user), dense(name + "/user/key", items), x, length);
    for (auto& row : x) {
      add(row, context);
    }
    auto const queries = dense(name + "/items/query", x);
    auto const keys = dense(name + "/items/key", x);
    auto const values = dense(name + "/items/value", x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      add(x[i], attention(queries[i], keys, values, length));
      normalise(x[i]);
    }
    return x;
  }
  static void add(Doubles& to, Doubles const& term) {
    for (std::size_t c = 0; c < to.size(); ++c) {
      to[c] += term[c];
    }
  }
  /// Normalises a row to mean 0 and variance 1. gamma is 1 and beta 0, as in a new model.
  static void normalise(Doubles& row) {
    auto const width = static_cast<double>(row.size());
    double mean = 0;
    double variance = 0;
    for (double const value : row) {
      mean += value / width;
    }
    for (double const value : row) {
      variance += (value - mean) * (value - mean) / width;
    }
    for (auto& value : row) {
      value = (value - mean) / std::sqrt(variance + 1e-5);
    }
  }

  train_rerank::RerankShape shape_;
  Parameters parameters_;
};

}  // namespace msstream::testing
