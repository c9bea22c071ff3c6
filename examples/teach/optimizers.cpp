// SPDX-License-Identifier: Apache-2.0
// Shows all that an optimizer can be given: parameters and tables by name, a schedule, a clipped
// norm, groups with numbers of their own, a rule for tables, micro-batches, averages, and tasks in
// alternation.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/parameter_averages.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ms = msstream;

namespace {

constexpr std::int64_t kRows = 32;
constexpr std::int64_t kUsers = 10;

struct Batch {
  ms::Tensor<float> features;      // [rows, 2]
  ms::Tensor<std::int64_t> users;  // [rows]
  ms::Tensor<float> labels;        // [rows, 1]: 1 if the first feature is the larger one
};

std::vector<Batch> batches_on(ms::Device<> const& device, int count) {
  std::vector<Batch> batches;
  for (int number = 0; number < count; ++number) {
    std::vector<float> features;
    std::vector<std::int64_t> users;
    std::vector<float> labels;
    for (std::int64_t row = number * kRows; row < (number + 1) * kRows; ++row) {
      features.push_back(static_cast<float>(row * 7 % 16) / 8 - 1);
      features.push_back(static_cast<float>(row * 5 % 16) / 8 - 1);
      users.push_back(row % kUsers);
      labels.push_back(features[features.size() - 2] > features.back() ? 1.0F : 0.0F);
    }
    batches.push_back({ms::to_device(device, features, {kRows, 2}),
                       ms::to_device(device, users, {kRows}),
                       ms::to_device(device, labels, {kRows, 1})});
  }
  return batches;
}

struct Model {
  explicit Model(ms::Device<> const& device)
      : weight(ms::zeros<float>(device, {2, 1})),
        bias(ms::zeros<float>(device, {1})),
        users(ms::zeros<float>(device, {kUsers, 1})) {}
  explicit Model(ms::Parameters<>& parameters)
      : weight(parameters.dense("weight", {2, 1})),
        bias(parameters.dense("bias", {1}, ms::init::zeros())),
        users(parameters.table("users", {kUsers, 1})) {}

  // Returns the logits [rows, 1]. The tape is a GradientTape, or no_tape.
  auto logits(auto& tape, Batch const& batch) const {
    auto const of_rows = ms::ops::dense(tape, batch.features, weight, bias);
    return ms::ops::add(tape, of_rows, ms::ops::gather_rows(tape, users, batch.users));
  }
  auto loss(auto& tape, Batch const& batch) const {
    return ms::ops::mean_bce_with_logits(tape, logits(tape, batch), batch.labels);
  }

  ms::Tensor<float> weight;
  ms::Tensor<float> bias;
  ms::Tensor<float> users;
};

float loss_of(Model const& model, Batch const& batch) {
  return ms::to_host(model.loss(ms::no_tape, batch))[0];
}

void parameters_by_name(ms::Device<> const& device) {
  auto const batches = batches_on(device, 10);
  Model const model(device);
  ms::GradientTape tape(device);
  auto const before = loss_of(model, batches[0]);

  ms::Optimizer optimizer(device,
                          {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 0.1F},
                          {.check_first_step = true});
  optimizer.add("weight", model.weight);
  optimizer.add("bias", model.bias);
  optimizer.add_table("users", model.users);
  for (auto const& batch : batches) {
    tape.without_gradient(batch.features);  // data
    tape.backward(model.loss(tape, batch));
    optimizer.step(tape);
    tape.clear();
  }
  teach::expect(loss_of(model, batches[0]) < 0.7F * before, "the loss falls");
}

void schedule_and_groups(ms::Device<> const& device) {
  auto const batches = batches_on(device, 3);
  Model const model(device);
  ms::GradientTape tape(device);

  ms::Optimizer optimizer(
      device,
      {.kind = ms::ops::OptimizerKind::adamw, .learning_rate = 1e-3F, .weight_decay = 0.01F},
      {.schedule = ms::Schedule::cosine({.steps = 10'000, .end = 0.1F, .warmup = {.steps = 500}}),
       .clip_norm = 1.0F});
  optimizer.add("weight", model.weight);
  optimizer.add("bias", model.bias, {.weight_decay = 0.0F});  // a group: numbers of its own
  optimizer.add_table("users", model.users, {.learning_rate = 10.0F, .clip_value = 0.5F});
  for (auto const& batch : batches) {
    tape.backward(model.loss(tape, batch));
    optimizer.step(tape);
    tape.clear();
  }
  auto const status = optimizer.status();
  teach::expect(status.steps == 3 && status.learning_rate < 1e-4F, "the third step of the warm-up");
}

void rule_of_tables(ms::Device<> const& device) {
  auto const batches = batches_on(device, 3);
  ms::Parameters parameters(device);
  Model const model(parameters);
  ms::GradientTape tape(device);

  using Kind = ms::ops::OptimizerKind;
  ms::Optimizer optimizer(
      device,
      {.kind = Kind::adamw, .learning_rate = 1e-3F, .weight_decay = 0.01F},
      {.table_rule = ms::ops::OptimizerRule{.kind = Kind::rowwise_adagrad, .learning_rate = 0.02F},
       .check_every_step = true,
       .clip_norm = 1.0F});
  optimizer.add(parameters);
  for (auto const& batch : batches) {
    tape.backward(model.loss(tape, batch));
    optimizer.step(tape);
    tape.clear();
  }
  teach::expect(optimizer.status().gradient_norm > 0, "the norm over weights and tables");
}

void micro_batches(ms::Device<> const& device) {
  auto const batches = batches_on(device, 6);
  ms::Parameters parameters(device);
  Model const model(parameters);
  ms::Optimizer optimizer(
      device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.1F}, {.micro_batches = 2});
  optimizer.add(parameters);
  ms::GradientTape tape(device);
  for (auto const& batch : batches) {
    tape.backward(model.loss(tape, batch));
    if (optimizer.step(tape)) {
      tape.clear();
    }
  }
  teach::expect(optimizer.status().steps == 3, "an update for each two batches");
}

void averages_of_parameters(ms::Device<> const& device) {
  auto const batches = batches_on(device, 6);
  ms::Parameters parameters(device);
  Model const model(parameters);
  ms::Optimizer optimizer(device, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.1F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);

  ms::ParameterAverages<> averages(0.999F);
  averages.add(parameters);  // dense parameters; add(parameters, "users") for a table
  for (auto const& batch : batches) {
    tape.backward(model.loss(tape, batch));
    optimizer.step(tape);
    averages.update();
    tape.clear();
  }
  auto const trained = loss_of(model, batches[0]);
  float averaged = 0.0F;
  {
    auto const swapped = averages.swap_in();
    averaged = loss_of(model, batches[0]);  // that of the averages
  }
  teach::expect(averaged != trained, "the averages follow slowly");
  teach::expect(loss_of(model, batches[0]) == trained, "the parameters are what they were");
}

void tasks_in_alternation(ms::Device<> const& device) {
  auto const batches = batches_on(device, 4);
  ms::Parameters parameters(device, {.seed = 1});
  ms::DenseStack const shared(parameters, "shared", 2, {8}, {.last = ms::ops::Activation::relu});
  std::vector<ms::DenseStack<>> const towers{{parameters, "task_a", 8, {1}},
                                             {parameters, "task_b", 8, {1}}};
  ms::ops::OptimizerRule const rule{.kind = ms::ops::OptimizerKind::adam, .learning_rate = 0.01F};

  ms::Optimizer optimizer(
      device, rule, {.check_every_step = true, .may_lack_gradient = {"task_a/*", "task_b/*"}});
  optimizer.add(parameters);
  ms::GradientTape tape(device);
  for (std::size_t step = 0; step < batches.size(); ++step) {
    auto const& batch = batches[step];
    tape.without_gradient(batch.features);
    auto const logits = towers[step % 2](tape, shared(tape, batch.features));
    tape.backward(ms::ops::mean_bce_with_logits(tape, logits, batch.labels));
    optimizer.step(tape);
    tape.clear();
  }
  teach::expect(optimizer.status().steps == 4, "two steps of each task");
}

}  // namespace

int main() {
  return teach::run([] {
    ms::Device<> const device;
    parameters_by_name(device);
    schedule_and_groups(device);
    rule_of_tables(device);
    micro_batches(device);
    averages_of_parameters(device);
    tasks_in_alternation(device);
  });
}
