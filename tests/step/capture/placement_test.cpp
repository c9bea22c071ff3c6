// SPDX-License-Identifier: Apache-2.0
// Tests on which groups operations are placed by an assignment file and by their inputs, in
// captures and in training steps.
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace msstream::testing {
namespace {

StreamAssignment assign(std::string_view lines, int groups = 4) {
  return StreamAssignment::parse(lines, "groups", groups);
}

template <class R>
class StepPlacementTest : public OpsTest<R> {
 protected:
  using Floats32 = Tensor<float, R>;

  /// Returns the lanes of the timeline on which `run` issues operations, by the name of the
  /// operation.
  template <class Run>
  [[nodiscard]] std::map<std::string, std::set<std::string>> lanes(Run&& run) {
    this->device().start_spans();
    run();
    std::map<std::string, std::set<std::string>> found;
    for (auto const& span : this->device().stop_spans().spans()) {
      found[span.name].insert(span.lane);
    }
    return found;
  }
  /// Issues an operation inside a capture and returns the group on which it is captured.
  template <class... Uses>
  [[nodiscard]] int where(char const* name, Uses const&... uses) {
    auto const position = issue(name, uses..., [](auto) {});
    auto const identity = this->device().context()->tracker->identity_of(position.stream);
    EXPECT_TRUE(this->device().context()->tracker->is_captured(position));
    return identity.group;
  }
};
TYPED_TEST_SUITE(StepPlacementTest, Runtimes, RuntimeNames);

TYPED_TEST(StepPlacementTest, backward_is_named_after_the_forward) {
  StreamPool pool(this->device(),
                  {.groups = 4,
                   .assignment = assign("1:(gradients/)?tower_1/.*\n2:gradients/tower_2/.*\n"
                                        "3:gradients/.*")});
  auto const x = this->put(std::vector<float>(8, 1.0F));
  auto const found = this->lanes([&] {
    GradientTape<TypeParam> tape(this->device());
    std::vector<Tensor<float, TypeParam>> towers;
    for (int i = 1; i <= 2; ++i) {
      NameScope const tower(fmt::format("tower_{}", i));
      towers.push_back(ops::sigmoid(tape, x));
    }
    NameScope const outside("outside");
    auto const loss = ops::mean(tape, ops::add(tape, towers));
    NameScope const caller("caller");
    tape.backward(loss);
  });
  using Lanes = std::set<std::string>;
  EXPECT_EQ(found.at("tower_1/sigmoid"), Lanes{"group 1 compute"});
  EXPECT_EQ(found.at("tower_2/sigmoid"), Lanes{"default group compute"});
  EXPECT_EQ(found.at("gradients/tower_1/sigmoid_gradient"), Lanes{"group 1 compute"});
  EXPECT_EQ(found.at("gradients/tower_2/sigmoid_gradient"), Lanes{"group 2 compute"});
  EXPECT_EQ(found.at("gradients/outside/broadcast"), Lanes{"group 3 compute"});
  EXPECT_EQ(found.at("gradients/copy_h2d"), Lanes{"group 3 h2d"}) << "the loss's own gradient";
  for (auto const& [name, where] : found) {
    EXPECT_FALSE(name.starts_with("outside/caller/")) << name;
  }
}

template <class R>
class CapturedPlacementTest : public StepPlacementTest<R> {};
TYPED_TEST_SUITE(CapturedPlacementTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedPlacementTest, captures_follow_the_file_the_scope_and_the_inputs) {
  StreamPool pool(this->device(),
                  {.groups = 4, .assignment = assign("1:op"), .propagate_groups = true});
  Tensor<float, TypeParam> const before(this->device(), {4});
  {
    StreamScope const scope(pool[3]);
    issue("write", writes(before), [](auto) {});
  }
  Tensor<float, TypeParam> const out(this->device(), {4});
  CapturedStep step(this->device(), [&] {
    EXPECT_EQ(this->where("op", writes(out)), 1);
    EXPECT_EQ(this->where("next", reads(out)), 1) << "written on a twin, in the capture";
    EXPECT_EQ(this->where("next", reads(before)), 3) << "written before the capture";
    Tensor<float, TypeParam> const inside(this->device(), {4});
    {
      StreamScope const scope(pool[2]);
      EXPECT_EQ(this->where("op", writes(before)), 1);
      EXPECT_EQ(this->where("other", writes(inside)), 2);
    }
    EXPECT_EQ(this->where("next", reads(before)), 1);
    EXPECT_EQ(this->where("next", reads(inside)), 2);
    {
      StreamScope const scope(this->device().default_group());
      EXPECT_EQ(this->where("other", writes(inside)), -1);
    }
    EXPECT_EQ(this->where("next", reads(inside)), -1);
    EXPECT_EQ(this->where("next", reads(inside, out)), 1);
  });
  auto const replayed = step.replay();
  EXPECT_EQ(this->device().context()->tracker->identity_of(replayed.stream).group, -1);
}

TYPED_TEST(CapturedPlacementTest, memory_comes_from_the_group_of_the_operation_that_is_next) {
  StreamPool pool(this->device(), {.groups = 3, .assignment = assign("1:left/.*\n2:right/.*", 3)});
  auto const x = this->put(std::vector<float>(1000, 1.0F));
  auto const step = [&] {
    for (int i = 0; i < 10; ++i) {
      for (auto const* const side : {"left", "right", "right"}) {
        NameScope const named(side);
        static_cast<void>(ops::scale(x, 2.0F));
      }
    }
  };
  step();
  auto const before = this->device().wait_counts().issued;
  CapturedStep<TypeParam> const captured(this->device(), step);
  EXPECT_EQ(this->device().wait_counts().issued, before) << "nothing needs anything of another";
}

TYPED_TEST(CapturedPlacementTest, what_a_thread_has_learnt_outlives_its_steps_on_other_devices) {
  auto const file = assign("1:left/.*\n2:right/.*", 3);
  StreamPool pool(this->device(), {.groups = 3, .assignment = file});
  auto const x = this->put(std::vector<float>(1000, 1.0F));
  Device<TypeParam> const other;
  StreamPool other_pool(other, {.groups = 3, .assignment = file});
  auto const y = to_device<float, TypeParam>(other, std::vector<float>(1000, 1.0F), {1000});
  auto const step = [](auto const& of) {
    for (int i = 0; i < 10; ++i) {
      for (auto const* const side : {"left", "right", "right"}) {
        NameScope const named(side);
        static_cast<void>(ops::scale(of, 2.0F));
      }
    }
  };
  step(x);
  step(y);
  auto const before = this->device().wait_counts().issued;
  CapturedStep<TypeParam> const captured(this->device(), [&] { step(x); });
  EXPECT_EQ(this->device().wait_counts().issued, before);
}

TYPED_TEST(CapturedPlacementTest, replays_have_a_name) {
  StreamPool pool(this->device(), {.groups = 4, .assignment = assign("2:serve/replay")});
  auto const x = this->put(std::vector<float>(8, 1.0F));
  Tensor<float, TypeParam> const y(this->device(), {8});
  CapturedStep step(this->device(), [&] { copy(y, ops::scale(x, 2.0F)); });
  NameScope const scope("serve");
  auto const position = step.replay();
  EXPECT_EQ(this->device().context()->tracker->identity_of(position.stream).group, 2);
  EXPECT_EQ(to_host(y), std::vector<float>(8, 2.0F));
}

/// Returns the losses and parameters after two training steps of a model with two towers.
template <Runtime R>
Floats train_on(StreamPoolOptions const& options, Device<R> const& device = Device<R>()) {
  StreamPool pool(device, options);
  std::mt19937_64 random(7);
  auto const put = [&](Shape const& shape) {
    Floats values(static_cast<std::size_t>(shape.count()));
    std::ranges::generate(values,
                          [&] { return static_cast<float>(random() % 20001) / 10000.0F - 1.0F; });
    return to_device<float, R>(device, values, shape);
  };
  std::vector<Tensor<float, R>> tables{put({50, 8}), put({50, 8})};
  auto const weight = put({16, 1});
  auto const bias = put({1});
  GradientTape<R> tape(device);
  Optimizer<R> optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F});
  for (std::size_t i = 0; i < tables.size(); ++i) {
    optimizer.add_table(fmt::format("table_{}", i), tables[i]);
  }
  optimizer.add("weight", weight);
  optimizer.add("bias", bias);
  Integers ids;
  for (std::int64_t i = 0; i < 24 * 3; ++i) {
    ids.push_back(i * 7 % 50);
  }
  Floats out;
  auto const append = [&](Tensor<float, R> const& tensor) {
    auto const values = to_host(tensor);
    out.insert(out.end(), values.begin(), values.end());
  };
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor<float, R>> towers;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      NameScope const tower(fmt::format("tower_{}", i));
      ops::Bags<R> const bags(to_device<std::int64_t, R>(device, ids, {24, 3}));
      towers.push_back(ops::sigmoid(tape, ops::embedding_lookup(tape, tables[i], bags)));
    }
    auto const logits = ops::dense(tape, ops::concat(tape, towers), weight, bias);
    auto const labels = to_device<float, R>(
        device, Floats(static_cast<std::size_t>(logits.count()), 0.25F), logits.shape());
    auto const loss = ops::mean_bce_with_logits(tape, logits, labels);
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
    append(loss);
  }
  for (auto const& tensor : {tables[0], tables[1], weight, bias}) {
    append(tensor);
  }
  return out;
}

TYPED_TEST(StepPlacementTest, training_gives_the_same_bits_for_any_assignment) {
  auto const expected = train_on<TypeParam>({.groups = 1});
  std::vector<std::string> const files{"3:.*",
                                       "1:(gradients/)?tower_1/.*\n2:(gradients/)?tower_0/.*",
                                       "1:.*gradient.*\n2:.*[aeiou]d.*\n3:.*s.*",
                                       "0:.*h2d\n1:.*d2h\n2:tower_0/.*\n3:gradients/.*"};
  for (auto const& file : files) {
    for (bool const propagate : {false, true}) {
      for (bool const merge : {false, true}) {
        for (auto const launch : {LaunchThreads::none, LaunchThreads::per_group}) {
          EXPECT_TRUE(same_bits(train_on<TypeParam>({.groups = 4,
                                                     .merge_streams = merge,
                                                     .launch_threads = launch,
                                                     .assignment = assign(file),
                                                     .propagate_groups = propagate}),
                                expected))
              << file << (propagate ? ", propagated" : "") << (merge ? ", merged" : "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
