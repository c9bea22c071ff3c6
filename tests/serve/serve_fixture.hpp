// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/serve/detail/staging.hpp>
#include <msstream/serve/inference_pool.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msstream::testing {

using serve::Answer;
using serve::InferencePoolOptions;
using serve::Query;

/// A model of several operations, whose rows do not depend on each other.
template <Runtime R>
struct Net {
  static constexpr std::int64_t kKeys = 4;
  static constexpr std::int64_t kDense = 3;
  static constexpr std::int64_t kWidth = 8;
  static constexpr std::int64_t kTableRows = 64;
  static constexpr std::int64_t kOutputs = 2;

  /// Makes a model whose weights depend on `number`.
  Net(Device<R> const& on, int number)
      : device(on),
        table(frozen(number, {kTableRows, kWidth})),
        weights(frozen(number + 7, {1, kWidth + kDense})) {}

  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    before();
    auto const rows = ops::hash_to_bucket(inputs.template get<std::int64_t>("keys"), kTableRows);
    auto const pooled = ops::embedding_lookup(table, ops::Bags<R>(rows));
    midway();
    auto const features = ops::concat<R>({pooled, inputs.template get<float>("dense")});
    auto const weighted = ops::multiply(features, weights);
    auto const squares = ops::multiply(weighted, weighted);
    Shape const column{inputs.rows(), 1};
    return ops::concat<R>(
        {ops::sum(weighted, 1).reshaped(column), ops::sum(squares, 1).reshaped(column)});
  }

  Tensor<float, R> frozen(int number, Shape const& shape) const {
    Floats values;
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      values.push_back(0.01F * static_cast<float>((i * 37 + number * 101) % 211) - 1.0F);
    }
    auto tensor = to_device<float, R>(device, values, shape);
    tensor.freeze();
    return tensor;
  }

  Device<R> device;
  Tensor<float, R> table;
  Tensor<float, R> weights;
  std::function<void()> before = [] {};
  std::function<void()> midway = [] {};  ///< called when part of the model has been issued
};

/// A query with random values, and the memory of the values.
struct Asked {
  Asked(Random& random, std::int64_t of_rows)
      : rows(of_rows),
        keys(random.integers(of_rows * 4, -1'000'000, 1'000'000)),
        dense(random.reals(of_rows * 3)) {}
  [[nodiscard]] Query query() const { return {.rows = rows, .values = {keys, dense}}; }

  std::int64_t rows;
  Integers keys;
  Floats dense;
};

[[nodiscard]] inline std::vector<serve::Field> net_inputs() {
  return {serve::field<std::int64_t>("keys", 4), serve::field<float>("dense", 3)};
}

/// A device, functions that make models for it, and options for small queries.
template <Runtime R>
struct ServeWorld {
  using Model = Net<R>;

  /// Makes a device with a limit of 512 MiB, since each capture reserves addresses for the whole
  /// limit and a sanitizer leaves few of them.
  explicit ServeWorld(DeviceOptions<R> with = {})
      : device((with.memory.limit_bytes = std::size_t{512} << 20U, with)) {}

  [[nodiscard]] std::shared_ptr<Model> net(int number) const {
    return std::make_shared<Model>(device, number);
  }
  [[nodiscard]] static InferencePoolOptions options() {
    return {.inputs = net_inputs(),
            .outputs_per_row = Model::kOutputs,
            .replicas = 2,
            .buckets = {4, 16}};
  }
  /// Returns the model's answer to one query alone, in buffers of as many rows as the query has.
  [[nodiscard]] Floats alone(Model const& model, Asked const& asked) const {
    return alone_in(asked.rows, model, asked);
  }
  /// Returns the answer of a model, with as many outputs as Model, to one query alone, in buffers
  /// of `rows` rows.
  [[nodiscard]] Floats alone_in(std::int64_t rows,
                                serve::Forward<R> const& model,
                                Asked const& asked) const {
    auto const layout = std::make_shared<serve::InputLayout const>(net_inputs());
    serve::Staging<R> const staging(device, layout, rows, Model::kOutputs);
    layout->pack_alone(asked.query(), staging.values(), rows);
    bool has_issued = false;
    auto const last = staging.issue(rows, model, has_issued);
    device.context()->tracker->synchronize(last);
    auto const answers =
        staging.answers().first(static_cast<std::size_t>(asked.rows * Model::kOutputs));
    return {answers.begin(), answers.end()};
  }

  Device<R> device;
};

[[nodiscard]] inline bool same_bits(Floats const& left, Floats const& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

/// Blocks the compute streams of all groups of a pool, so that no launch completes until the gate
/// opens.
template <class Pool>
void hold_all(Gate& gate, Pool const& pool) {
  for (int i = 0; i < pool.streams().groups(); ++i) {
    gate.hold(pool.streams()[i].compute());
  }
}

/// Submits two queries to a pool of two idle replicas, of which the caller holds the group of the
/// first. Returns the query in flight on the first replica, once the second replica has answered
/// the other.
template <class Pool>
[[nodiscard]] std::future<Answer> ask_held(Pool& pool, Asked const& asked) {
  auto one = pool.submit(asked.query());
  auto other = pool.submit(asked.query());  // goes to the other replica, which has less to do
  while (true) {
    for (auto* const answer : {&one, &other}) {
      if (answer->wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        EXPECT_EQ(answer->get().replica, 1);
        return std::move(answer == &one ? other : one);
      }
    }
    std::this_thread::yield();
  }
}

/// Returns the message of the exception of type E that a future throws.
template <class E>
[[nodiscard]] std::string error_of(std::future<Answer>& answer) {
  return message_of<E>([&] { static_cast<void>(answer.get()); });
}

/// Waits, without sleeping, until another thread has made the condition true.
template <class Condition>
void await(Condition&& condition) {
  while (!condition()) {
    std::this_thread::yield();
  }
}

}  // namespace msstream::testing
