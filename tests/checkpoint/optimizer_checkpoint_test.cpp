// SPDX-License-Identifier: Apache-2.0
// Tests what a checkpoint keeps and refuses of an optimizer besides its tensors.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "memory/runtimes.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/writer.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <stdexcept>

namespace msstream::testing {
namespace {

using checkpoint::Tensors;
using ops::OptimizerKind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

template <class R>
class OptimizerCheckpoint : public RuntimeTest<R> {
 protected:
  OptimizerCheckpoint() { (void)parameters_.dense("w", {2, 1}); }

  [[nodiscard]] Optimizer<R> made(OptimizerKind kind, std::int64_t micro_batches = 1) const {
    OptimizerOptions options;
    options.micro_batches = micro_batches;
    return Optimizer<R>(device_, {.kind = kind, .learning_rate = 0.1F}, options);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  Device<R> device_;
  Parameters<R> parameters_{device_};
};
TYPED_TEST_SUITE(OptimizerCheckpoint, Runtimes, RuntimeNames);

TYPED_TEST(OptimizerCheckpoint, another_rule_is_refused_by_both_names) {
  auto adam = this->made(OptimizerKind::adam);
  adam.add(this->parameters_);
  checkpoint::save(this->path_, Tensors(this->parameters_, adam));
  auto const loaded = checkpoint::load(this->path_, Tensors(this->parameters_, adam));
  EXPECT_THAT(loaded.tensors, Contains("optimizer/rule"));
  for (auto const kind : {OptimizerKind::ftrl, OptimizerKind::lamb, OptimizerKind::adamw}) {
    auto other = this->made(kind);
    other.add(this->parameters_);
    Tensors const tensors(this->parameters_, other);
    EXPECT_THAT(message_of<std::invalid_argument>([&] { checkpoint::load(this->path_, tensors); }),
                AllOf(HasSubstr("of the file is adam,"),
                      HasSubstr(std::string("of the program is ") + ops::name_of(kind))));
    // Whoever means it leaves the name out.
    EXPECT_NO_THROW(checkpoint::load(this->path_, tensors, {.except = {"optimizer/rule"}}));
  }
}

TYPED_TEST(OptimizerCheckpoint, another_rule_of_tables_is_refused_by_both_names) {
  auto const made_with = [&](OptimizerKind kind) {
    OptimizerOptions options;
    options.table_rule = ops::OptimizerRule{.kind = kind, .learning_rate = 0.1F};
    return Optimizer<TypeParam>(
        this->device_, {.kind = OptimizerKind::adamw, .learning_rate = 0.1F}, options);
  };
  auto const rowwise = made_with(OptimizerKind::rowwise_adagrad);
  checkpoint::save(this->path_, Tensors(rowwise));
  EXPECT_NO_THROW(checkpoint::load(this->path_, Tensors(rowwise)));
  auto const sgd = made_with(OptimizerKind::sgd);
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { checkpoint::load(this->path_, Tensors(sgd)); }),
      AllOf(HasSubstr("of the file is adamw, tables rowwise_adagrad"),
            HasSubstr("of the program is adamw, tables sgd")));
}

TYPED_TEST(OptimizerCheckpoint, each_of_two_optimizers_has_its_rule) {
  auto adam = this->made(OptimizerKind::adam);
  adam.add(this->parameters_);
  auto sgd = this->made(OptimizerKind::sgd);
  Tensors const tensors = Tensors(this->parameters_).add("one", adam).add("two", sgd);
  checkpoint::save(this->path_, tensors);
  EXPECT_NO_THROW(checkpoint::load(this->path_, tensors));
  auto lamb = this->made(OptimizerKind::lamb);
  lamb.add(this->parameters_);
  Tensors const others = Tensors(this->parameters_).add("one", lamb).add("two", sgd);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { checkpoint::load(this->path_, others); }),
              AllOf(HasSubstr("one/optimizer/rule"), Not(HasSubstr("two/optimizer/rule"))));
}

TYPED_TEST(OptimizerCheckpoint, a_file_without_a_rule_is_loaded) {
  auto adam = this->made(OptimizerKind::adam);
  adam.add(this->parameters_);
  Tensors without(this->parameters_);
  adam.visit_state([&](std::string const& name, auto const& tensor) { without.add(name, tensor); });
  checkpoint::save(this->path_, without);
  auto const loaded = checkpoint::load(this->path_, Tensors(this->parameters_, adam));
  EXPECT_THAT(loaded.missing, IsEmpty());
  EXPECT_THAT(loaded.tensors, Not(Contains("optimizer/rule")));
}

TYPED_TEST(OptimizerCheckpoint, a_rate_that_was_set_is_resumed_and_the_rules_is_the_programs) {
  GradientTape tape(this->device_);
  auto const w = this->parameters_.find("w");
  // Returns by how much a step with a gradient of ones moves the weights, which are the rate.
  auto const moved = [&](Optimizer<TypeParam>& optimizer) {
    auto const before = to_host(w).front();
    tape.backward(ops::sum(tape, w));
    optimizer.step(tape);
    tape.clear();
    return before - to_host(w).front();
  };
  copy(w, to_device(this->device_, std::vector{0.0F, 0.0F}, {2, 1}));
  Optimizer<TypeParam> first(this->device_, {.kind = OptimizerKind::sgd, .learning_rate = 1.0F});
  first.add(this->parameters_);
  EXPECT_EQ(moved(first), 1.0F);
  checkpoint::save(this->path_, Tensors(this->parameters_, first));
  first.set_learning_rate(0.25F);
  checkpoint::save(this->folder_ / "set", Tensors(this->parameters_, first));

  Optimizer<TypeParam> second(this->device_, {.kind = OptimizerKind::sgd, .learning_rate = 0.5F});
  second.add(this->parameters_);
  EXPECT_EQ(second.status().learning_rate, 0.5F);
  checkpoint::load(this->path_, Tensors(this->parameters_, second));
  EXPECT_EQ(moved(second), 0.5F);
  EXPECT_EQ(second.status().learning_rate, 0.5F);
  checkpoint::load(this->folder_ / "set", Tensors(this->parameters_, second));
  EXPECT_EQ(moved(second), 0.25F);
}

TYPED_TEST(OptimizerCheckpoint, pending_micro_batches_are_not_saved_and_a_load_forgets_them) {
  auto optimizer = this->made(OptimizerKind::sgd, 2);
  optimizer.add(this->parameters_);
  Tensors const tensors(this->parameters_, optimizer);
  checkpoint::Writer writer(tensors, {.folder = this->folder_ / "run"});
  checkpoint::save(this->path_, tensors);
  GradientTape tape(this->device_);
  auto const step = [&] {
    tape.backward(ops::sum(tape, this->parameters_.find("w")));
    return optimizer.step(tape);
  };
  EXPECT_FALSE(step());
  EXPECT_THAT(message_of<std::logic_error>([&] { checkpoint::save(this->path_, tensors); }),
              AllOf(HasSubstr("checkpoint::save"), HasSubstr("1 of 2 micro-batches")));
  EXPECT_THAT(message_of<std::logic_error>([&] { writer.save({.step = 1}); }),
              AllOf(HasSubstr("checkpoint::Writer::save"), HasSubstr("1 of 2 micro-batches")));
  checkpoint::load(this->path_, tensors);
  tape.clear();
  EXPECT_FALSE(step());
  EXPECT_TRUE(step());
  tape.clear();
  EXPECT_NO_THROW(checkpoint::save(this->path_, tensors));
  EXPECT_NO_THROW(writer.save({.step = 2}));
  EXPECT_NO_THROW(writer.wait());
}

TYPED_TEST(OptimizerCheckpoint, a_list_that_was_made_too_early_is_refused) {
  auto optimizer = this->made(OptimizerKind::adam);
  Tensors const early(this->parameters_, optimizer);
  checkpoint::Writer writer(early, {.folder = this->folder_ / "run"});
  Tensors const prefixed = Tensors().add("model", this->parameters_);
  optimizer.add(this->parameters_);
  auto const refused = [&](auto&& call, char const* name) {
    EXPECT_THAT(message_of<std::logic_error>(call), AllOf(HasSubstr(name), HasSubstr("\"w\"")));
  };
  refused([&] { checkpoint::save(this->path_, early); }, "checkpoint::save");
  refused([&] { checkpoint::load(this->path_, early); }, "checkpoint::load");
  refused([&] { writer.save({.step = 1}); }, "checkpoint::Writer::save");
  refused([&] { checkpoint::Writer(early, {.folder = this->folder_ / "run"}); }, "Writer");
  EXPECT_NO_THROW(checkpoint::save(this->path_, Tensors(this->parameters_, optimizer)));
  EXPECT_NO_THROW(checkpoint::save(this->path_, prefixed));
  (void)this->parameters_.dense("later", {2, 1});
  EXPECT_THAT(message_of<std::logic_error>([&] { checkpoint::save(this->path_, prefixed); }),
              HasSubstr("\"later\""));
}

}  // namespace
}  // namespace msstream::testing
