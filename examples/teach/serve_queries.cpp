// SPDX-License-Identifier: Apache-2.0
// A model that answers queries: sixteen replicas on their own streams share its weights.
#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

namespace ms = msstream;

/// The model: 104 keys of each row are looked up in a table, summed, and joined with 13 numbers.
struct Net {
  ms::Tensor<float> operator()(ms::serve::Inputs<ms::DefaultRuntime> const& inputs) const {
    auto const keys = inputs.get<std::int64_t>("keys");  // [bucket rows, 104]
    auto const rows = ms::ops::hash_to_bucket(keys, table.shape()[0]);
    auto const pooled = ms::ops::embedding_lookup(table, ms::ops::Bags(rows));
    auto const features = ms::ops::concat(std::vector{pooled, inputs.get<float>("dense")});
    return ms::ops::dense(features, weight, bias);  // [bucket rows, outputs_per_row]
  }
  ms::Tensor<float> table, weight, bias;  // frozen: reads are not tracked
};

std::shared_ptr<Net const> make_net(ms::Device<> const& device) {
  Net net{ms::to_device(device, std::vector<float>(8'000, 0.25F), {1000, 8}),
          ms::to_device(device, std::vector<float>(8 + 13, 0.5F), {8 + 13, 1}),
          ms::zeros<float>(device, {1})};
  net.table.freeze();
  net.weight.freeze();
  net.bias.freeze();
  return std::make_shared<Net const>(net);
}

int main() {
  return teach::run([] {
    ms::Device const device;
    auto const model = make_net(device);
    std::vector<std::int64_t> keys(312);  // 3 rows of 104 keys
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = static_cast<std::int64_t>(i);
    }
    std::vector<float> const dense(39, 2.0F);  // 3 rows of 13 values

    ms::serve::InferencePool pool(
        device,
        model,
        {.inputs = {ms::serve::field<std::int64_t>("keys", 104),  // elements per row
                    ms::serve::field<float>("dense", 13)},
         .outputs_per_row = 1,
         .replicas = 16,
         .buckets = {64, 256}});
    std::future<ms::serve::Answer> future = pool.submit({.rows = 3, .values = {keys, dense}});
    auto const answer = future.get();  // its values are [3, 1]

    float const expected = 8 * 0.5F * (104 * 0.25F) + 13 * 0.5F * 2.0F;
    teach::expect(answer.values == std::vector<float>(3, expected), "the answer of each row");
    std::cout << "replica " << answer.replica << " answered " << answer.values.front() << '\n';
  });
}
