// SPDX-License-Identifier: Apache-2.0
// Records a step of four towers, counts its waits, predicts its time on other stream groups, lets
// the prediction choose groups, and runs the step on the groups of the file.
#include "teach.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/record_step.hpp>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ms = msstream;

namespace {

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kWidth = 32;

// Four towers, each in a name scope, whose outputs are added to one logit.
class Training {
 public:
  explicit Training(ms::Device<> const& device)
      : parameters_(device, {.seed = 1}),
        optimizer_(device, {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 0.01F}),
        tape_(device) {
    for (int i = 0; i < 4; ++i) {
      towers_.emplace_back(
          parameters_, "tower_" + std::to_string(i), kWidth, std::vector<std::int64_t>{kWidth, 1});
    }
    optimizer_.add(parameters_);
  }

  ms::Tensor<float> step(ms::Tensor<float> const& features, ms::Tensor<float> const& labels) {
    tape_.without_gradient(features);
    std::vector<ms::Tensor<float>> outputs;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
      ms::NameScope const scope("tower_" + std::to_string(i));
      outputs.push_back(towers_[i](tape_, features));
    }
    auto loss = ms::ops::mean_bce_with_logits(tape_, ms::ops::add(tape_, outputs), labels);
    tape_.backward(loss);
    optimizer_.step(tape_);
    tape_.clear();
    return loss;
  }

 private:
  ms::Parameters<> parameters_;
  std::vector<ms::DenseStack<>> towers_;
  ms::Optimizer<> optimizer_;
  ms::GradientTape<> tape_;
};

struct Batch {
  explicit Batch(ms::Device<> const& device)
      : features(ms::ops::random_normal(device, {kRows, kWidth}, {1, "features"})),
        labels(ms::zeros<float>(device, {kRows, 1})) {}

  ms::Tensor<float> features;
  ms::Tensor<float> labels;
};

ms::StepTrace record(ms::Device<> const& device) {
  Training training(device);
  Batch const batch(device);
  auto const train = [&](Batch const& on) { return training.step(on.features, on.labels); };

  train(batch);  // once as usual: creates objects made at first use
  ms::StepTrace trace = ms::record_step(device, [&] { train(batch); });
  trace.save("step.json");                   // StepTrace::load() reads it
  std::ofstream("step.svg") << trace.svg();  // lanes are streams, bars are operations
  std::ofstream("step.dot") << trace.dot();  // for Graphviz
  std::printf("%.0f ns, of which %.0f on the critical path; %llu waits\n",
              trace.step_ns(),
              trace.critical_path().length_ns,
              static_cast<unsigned long long>(trace.waits().issued));
  return trace;
}

void count_waits(ms::StepTrace const& trace, ms::StreamAssignment const& assignment) {
  ms::StepWaits const recorded = ms::minimal_waits(trace);
  ms::StepWaits const other = ms::minimal_waits(trace, ms::groups_by(trace, assignment));
  teach::expect(recorded.necessary == 0, "one group needs no waits");
  teach::expect(other.necessary > 0, "two groups need some");
}

void predict_times(ms::StepTrace const& trace, ms::StreamAssignment const& assignment) {
  using Launch = ms::StepModel::Launch;
  double const eager = ms::predict(trace, assignment);  // ns, issued by one thread
  double const replayed = ms::predict(trace, assignment, {.launch = Launch::graph});
  teach::expect(eager > 0 && replayed > 0, "times");
}

void choose(ms::StepTrace const& trace) {
  auto const choice =
      ms::auto_assignment(trace, 4, {.model = {.launch = ms::StepModel::Launch::graph}});
  std::ofstream("groups.txt") << choice.text;  // for .assignment, or MSSTREAM_STREAM_ASSIGNMENT
  std::printf("%.0f ns, %.0f on one group, %.0f as recorded\n",
              choice.predicted_ns,
              choice.one_group_ns,
              choice.recorded_ns);
  teach::expect(choice.predicted_ns <= choice.one_group_ns, "no worse than one group");
}

float train_by_file() {
  ms::Device device;
  ms::StreamPool pool(
      device, {.groups = 4, .assignment = ms::StreamAssignment::from_file("groups.txt", 4)});
  Training training(device);
  Batch const batch(device);
  return ms::to_host(training.step(batch.features, batch.labels))[0];
}

float train_on_one_group() {
  ms::Device device;
  Training training(device);
  Batch const batch(device);
  return ms::to_host(training.step(batch.features, batch.labels))[0];
}

}  // namespace

int main() {
  return teach::run([] {
    auto const folder = std::filesystem::temp_directory_path() /
                        ("msstream-choose-groups-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::filesystem::current_path(folder);
    auto const trace = record(ms::Device<>());
    auto const assignment =
        ms::StreamAssignment::parse("1:(gradients/)?tower_[01]/.*\n", "two towers", 2);
    count_waits(trace, assignment);
    predict_times(trace, assignment);
    choose(trace);
    auto const by_file = train_by_file();
    std::filesystem::current_path("/");
    std::filesystem::remove_all(folder);
    teach::expect(by_file == train_on_one_group(), "the groups change no bit of the loss");
  });
}
