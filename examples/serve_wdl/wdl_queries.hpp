// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wdl_weights.hpp"

#include <msstream/serve/query.hpp>

#include <cstdint>
#include <deque>
#include <vector>

namespace serve_wdl {

/// Random queries, of either form of the model.
///
/// train_wdl hashes a key and the number of its field; here the keys bring their field's number, so
/// that one hash serves all fields, and a model has the same rows in both forms.
class WdlQueries {
 public:
  WdlQueries(WdlOptions const& options, WdlWeights const& weights);
  WdlQueries(WdlQueries const&) = delete;  // the queries name this object's values
  WdlQueries& operator=(WdlQueries const&) = delete;

  [[nodiscard]] std::vector<ms::serve::Query> const& all() const noexcept { return queries_; }

 private:
  std::deque<std::vector<std::int64_t>> keys_;
  std::deque<std::vector<float>> dense_;
  std::vector<ms::serve::Query> queries_;
};

}  // namespace serve_wdl
