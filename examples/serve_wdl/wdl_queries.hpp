// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wdl_weights.hpp"

#include <msstream/serve/query.hpp>

#include <cstdint>
#include <deque>
#include <vector>

namespace serve_wdl {

/// Random queries for both forms of the model.
///
/// train_wdl hashes a key together with the number of its field. Here the number of the field is
/// added to the key instead, so that one hash serves all fields, and a model uses the same rows in
/// both forms.
class WdlQueries {
 public:
  WdlQueries(WdlOptions const& options, WdlWeights const& weights);
  WdlQueries(WdlQueries const&) = delete;  // the queries refer to this object's values
  WdlQueries& operator=(WdlQueries const&) = delete;

  [[nodiscard]] std::vector<ms::serve::Query> const& all() const noexcept { return queries_; }

 private:
  std::deque<std::vector<std::int64_t>> keys_;
  std::deque<std::vector<float>> dense_;
  std::vector<ms::serve::Query> queries_;
};

}  // namespace serve_wdl
