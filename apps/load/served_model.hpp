// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/load_plan.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/serve/detail/staging.hpp>
#include <msstream/serve/inference_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::load {

/// A model with its weights on a device, as served by the pools of the example programs.
template <Runtime R>
class ServedModel {
 public:
  /// Records that the model has the set of weights number `variant` of the workload.
  explicit ServedModel(int variant) noexcept : variant_(variant) {}
  ServedModel(ServedModel const&) = delete;
  ServedModel& operator=(ServedModel const&) = delete;
  virtual ~ServedModel() = default;

  /// Returns the model's answers to a batch of queries, [inputs.rows(), outputs per row].
  [[nodiscard]] virtual Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const = 0;
  [[nodiscard]] virtual std::size_t weight_bytes() const = 0;
  [[nodiscard]] int variant() const noexcept { return variant_; }

 private:
  int variant_;
};

/// Returns a frozen tensor with the given elements, rounded to type T.
template <RealElement T = float, Runtime R>
[[nodiscard]] Tensor<T, R> frozen(Device<R> const& device,
                                  std::vector<float> const& elements,
                                  Shape const& shape) {
  auto tensor = ops::cast<T>(to_device<float, R>(device, elements, shape));
  tensor.freeze();
  return tensor;
}

/// The model that a program serves, and the queries that it submits.
template <Runtime R>
struct Workload {
  using Model = std::shared_ptr<ServedModel<R> const>;

  std::vector<serve::Field> inputs;
  std::int64_t outputs_per_row;
  std::int64_t query_rows;
  /// Builds the model with weights number 0 or 1, which --swap-ms serves in turn.
  std::function<Model(Device<R> const&, int variant)> build;
  std::vector<LoadQuery> queries = {};
  QueryCost cost = {};
};

/// Returns the answer of a model to a query alone, in buffers for `bucket` rows, with its
/// operations issued one by one.
template <Runtime R>
[[nodiscard]] std::vector<float> lone_answer(Device<R> const& device,
                                             Workload<R> const& workload,
                                             ServedModel<R> const& model,
                                             serve::Query const& query,
                                             std::int64_t bucket) {
  auto const layout = std::make_shared<serve::InputLayout const>(workload.inputs);
  serve::Staging<R> const staging(device, layout, bucket, workload.outputs_per_row);
  layout->pack_alone(query, staging.values(), bucket);
  bool has_issued = false;
  auto const last = staging.issue(
      bucket, [&](auto const& inputs) { return model(inputs); }, has_issued);
  device.synchronize(last);
  auto const answers = staging.answers();
  auto const count = static_cast<std::size_t>(query.rows * workload.outputs_per_row);
  return {answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(count)};
}

/// Sets the expected answers of each query: those of the models with the first `variants` sets of
/// weights, in each of the buckets. Every bucket must hold the query.
template <Runtime R>
void expect_lone_answers(Device<R> const& device,
                         Workload<R>& workload,
                         int variants,
                         std::vector<std::int64_t> const& buckets) {
  for (int variant = 0; variant < variants; ++variant) {
    auto const model = workload.build(device, variant);
    for (auto& asked : workload.queries) {
      auto& expected = asked.expected.emplace_back();
      for (auto const bucket : buckets) {
        expected.push_back(lone_answer(device, workload, *model, asked.query, bucket));
      }
    }
  }
}

}  // namespace msstream::load
