// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "ple_branches.hpp"
#include "ple_grouped.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using train_ple::DeviceBatch;
using train_ple::PleShape;

constexpr std::int64_t kBatch = 24;
constexpr std::int64_t kHotness = 2;

struct Run {
  int groups = 1;
  bool captured = false;
  LaunchThreads launch_threads = LaunchThreads::none;
};

template <class R>
class PleModelTest : public OpsTest<R> {
 protected:
  PleShape shape{.table_rows = {50, 7, 300, 20},
                 .embedding_dim = 4,
                 .continuous = 3,
                 .tasks = 2,
                 .levels = 3,
                 .experts = 2,
                 .expert_hidden = 12,
                 .expert_outputs = 8,
                 .tower_hidden = 5,
                 .seed = 9};
  Integers keys = this->random.integers(4 * kBatch * kHotness, -1'000'000, 1'000'000);
  Floats continuous = this->random.reals(kBatch * 3);
  Floats labels = this->random.reals(2 * kBatch, 0.0F, 1.0F);

  /// The losses of some steps of training, each before the step.
  template <class Model>
  Floats losses(Run const& run) {
    Device<R> const& device = this->device();
    StreamPool<R> pool(device, {.groups = run.groups, .launch_threads = run.launch_threads});
    GradientTape<R> tape(device);
    Model const model(device, shape);
    Optimizer<R> optimizer(device, {.kind = ops::OptimizerKind::adagrad, .learning_rate = 0.05F});
    model.visit_parameters(
        [&](auto const& name, auto const& weight) { optimizer.add(name, weight); },
        [&](auto const& name, auto const& table) { optimizer.add_table(name, table); });
    DeviceBatch<R> const batch{this->put(keys, {4, kBatch, kHotness}),
                               this->put(continuous, {kBatch, 3}),
                               this->put(labels, {2, kBatch, 1})};
    std::optional<Tensor<float, R>> loss;
    auto const train = [&] {
      loss = model.loss(tape, pool, batch);
      tape.backward(*loss);
      optimizer.step(tape);
      tape.clear();
    };
    Floats values;
    auto const note = [&] { values.push_back(to_host(*loss).front()); };
    train();
    note();
    if constexpr (CapturingRuntime<R>) {
      if (run.captured) {
        CapturedStep<R> step(device, train);
        for (int i = 0; i < 4; ++i) {
          step.replay();
          note();
        }
        return values;
      }
    }
    for (int i = 0; i < 4; ++i) {
      train();
      note();
    }
    return values;
  }
};
TYPED_TEST_SUITE(PleModelTest, Runtimes, RuntimeNames);

TYPED_TEST(PleModelTest, both_forms_are_the_same_mathematics) {
  auto const branches = this->template losses<train_ple::PleBranches<TypeParam>>({});
  auto const grouped = this->template losses<train_ple::PleGrouped<TypeParam>>({});
  expect_near(grouped, to_doubles(branches), 1e-4);
  EXPECT_LT(branches.back(), 0.99F * branches.front()) << "it learns";
}

TYPED_TEST(PleModelTest, losses_have_the_same_bits_however_a_step_is_issued) {
  auto const check = [&]<class Model>(std::optional<Model> const&) {
    auto const expected = this->template losses<Model>({});
    for (int const groups : {1, 3, 7}) {
      SCOPED_TRACE(text(groups, " groups"));
      EXPECT_EQ(this->template losses<Model>({.groups = groups}), expected);
      EXPECT_EQ(this->template losses<Model>(
                    {.groups = groups, .launch_threads = LaunchThreads::per_group}),
                expected);
      if constexpr (CapturingRuntime<TypeParam>) {
        EXPECT_EQ(this->template losses<Model>({.groups = groups, .captured = true}), expected);
      }
    }
  };
  check(std::optional<train_ple::PleBranches<TypeParam>>());
  check(std::optional<train_ple::PleGrouped<TypeParam>>());
}

}  // namespace
}  // namespace msstream::testing
