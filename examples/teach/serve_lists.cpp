// SPDX-License-Identifier: Apache-2.0
// A model whose queries have a list for each row, such as the items that a user has touched.
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace ms = msstream;

/// The model: the sum of the rows of a list's items, each times its weight.
struct Net {
  ms::Tensor<float> operator()(ms::serve::Inputs<ms::DefaultRuntime> const& inputs) const {
    ms::ops::Bags<> bags(inputs.get<std::int64_t>("history"), inputs.offsets("history"));
    bags.weights = inputs.get<float>("weights");
    return ms::ops::embedding_lookup(table, bags);  // [bucket rows, 1]
  }
  ms::Tensor<float> table;  // frozen: reads are not tracked
};

int main() {
  return teach::run([] {
    ms::Device const device;
    auto table = ms::to_device(device, std::vector<float>{1, 10, 100, 1000}, {4, 1});
    table.freeze();
    auto const model = std::make_shared<Net const>(Net{table});

    ms::serve::InferencePool pool(
        device,
        model,
        {.inputs = {ms::serve::jagged_field<std::int64_t>("history", 50),       // room for 50 a row
                    ms::serve::jagged_field<float>("weights", 50, "history")},  // one for each
         .outputs_per_row = 1,
         .buckets = {4, 16}});
    // Three rows: the items 3 and 1, none, and item 2.
    std::vector<std::int64_t> const history{3, 1, 2};
    std::vector<std::int64_t> const offsets{0, 2, 2, 3};
    std::vector<float> const weights{1, 2, 0.5F};
    auto answer = pool.submit({.rows = 3, .values = {{history, offsets}, weights}});
    teach::expect(answer.get().values == std::vector<float>{1020, 0, 50}, "a sum for each list");
  });
}
