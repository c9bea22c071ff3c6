// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_folder.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>

#include <limits>
#include <stdexcept>
#include <utility>

namespace msstream::testing {
namespace {

template <class R>
class LossScaleCheckpointTest : public OpsTest<R> {};
TYPED_TEST_SUITE(LossScaleCheckpointTest, Runtimes, RuntimeNames);

TYPED_TEST(LossScaleCheckpointTest, a_resumed_run_continues_with_the_scale) {
  TemporaryFolder const folder;
  auto const path = folder / "run.safetensors";
  Parameters parameters(this->device(), {.seed = 1});
  auto const w = parameters.dense("w", {4}, init::ones());
  auto const rule = ops::OptimizerRule{.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F};
  {
    LossScale const scale(this->device(), {.initial = 512.0F});
    Optimizer optimizer(this->device(), rule, {.loss_scale = scale});
    optimizer.add(parameters);
    GradientTape tape(this->device());
    auto const loss = zeros<float>(this->device(), {});
    tape.record("loss", loss, [&](auto& playing, auto const&) {
      playing.add_gradient(w, this->put(Floats(4, std::numeric_limits<float>::infinity()), {4}));
    });
    tape.backward(scale.scaled(tape, loss));
    optimizer.step(tape);
    checkpoint::save(path, checkpoint::Tensors(parameters, optimizer));
  }
  LossScale const scale(this->device());
  Optimizer optimizer(this->device(), rule, {.loss_scale = scale});
  optimizer.add(parameters);
  ASSERT_EQ(scale.value(), 65'536.0F);
  checkpoint::load(path, checkpoint::Tensors(parameters, optimizer));
  EXPECT_EQ(scale.value(), 256.0F);
  EXPECT_EQ(optimizer.status().skipped, 1);
  EXPECT_EQ(optimizer.status().steps, 0);

  // An optimizer that skips nothing continues with the number, and passes it on.
  Optimizer plain(this->device(), rule);
  plain.add(parameters);
  auto const loaded = checkpoint::load(
      path, checkpoint::Tensors(parameters, plain), {.except = {"optimizer/loss_scale"}});
  EXPECT_THAT(loaded.tensors, ::testing::Contains("optimizer/skipped"));
  EXPECT_EQ(plain.status().skipped, 1);
}

TYPED_TEST(LossScaleCheckpointTest, optimizers_that_skip_and_others_go_on_with_each_others_runs) {
  TemporaryFolder const folder;
  auto const path = folder / "run.safetensors";
  auto const rule = ops::OptimizerRule{.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F};
  Parameters parameters(this->device(), {.seed = 1});
  static_cast<void>(parameters.dense("w", {4}, init::ones()));
  Optimizer skipping(this->device(), rule, {.skip_non_finite = true});
  skipping.add(parameters);
  Optimizer plain(this->device(), rule);
  plain.add(parameters);
  for (auto const& [saved, resumed] : {std::pair(&skipping, &plain), {&plain, &skipping}}) {
    checkpoint::save(path, checkpoint::Tensors(parameters, *saved));
    auto const loaded = checkpoint::load(path, checkpoint::Tensors(parameters, *resumed));
    EXPECT_THAT(loaded.tensors, ::testing::Contains("optimizer/skipped"));
    EXPECT_THAT(loaded.unexpected, ::testing::IsEmpty());
  }
}

TYPED_TEST(LossScaleCheckpointTest, a_number_of_skipped_steps_that_nobody_claims_is_refused) {
  TemporaryFolder const folder;
  auto const path = folder / "run.safetensors";
  auto const rule = ops::OptimizerRule{.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F};
  Optimizer const optimizer(this->device(), rule);
  checkpoint::save(path, checkpoint::Tensors().add("run", optimizer));
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { checkpoint::load(path, checkpoint::Tensors()); }),
      ::testing::HasSubstr("run/optimizer/skipped"));
}

TYPED_TEST(LossScaleCheckpointTest, a_file_without_the_number_of_skipped_steps_is_loaded) {
  TemporaryFolder const folder;
  auto const path = folder / "run.safetensors";
  auto const rule = ops::OptimizerRule{.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F};
  Parameters parameters(this->device(), {.seed = 1});
  auto const w = parameters.dense("w", {4}, init::ones());
  LossScale const scale(this->device(), {.initial = 512.0F});
  Optimizer optimizer(this->device(), rule, {.loss_scale = scale});
  optimizer.add(parameters);
  bool has_skipped = false;
  checkpoint::save(path, checkpoint::Tensors(parameters, [&](auto const& visit) {
                     optimizer.visit_state([&](std::string const& name, auto const& tensor) {
                       has_skipped = has_skipped || name == "optimizer/skipped";
                       if (name != "optimizer/skipped") {
                         visit(name, tensor);
                       }
                     });
                   }));
  ASSERT_TRUE(has_skipped);
  auto const loaded = checkpoint::load(path, checkpoint::Tensors(parameters, optimizer));
  EXPECT_TRUE(loaded.missing.empty());
  EXPECT_EQ(optimizer.status().skipped, 0);
}

}  // namespace
}  // namespace msstream::testing
