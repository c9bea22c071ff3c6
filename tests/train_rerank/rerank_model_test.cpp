// SPDX-License-Identifier: Apache-2.0
#include "rerank_model.hpp"

#include "ops/ops_fixture.hpp"
#include "rerank_reference.hpp"
#include "step/model_losses.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/record_step.hpp>

#include <cstdint>
#include <string>

namespace msstream::testing {
namespace {

using train_rerank::DeviceBatch;
using train_rerank::HostBatch;
using train_rerank::RerankModel;
using train_rerank::RerankShape;

constexpr RerankShape kShape{.columns = 7,
                             .user_groups = 2,
                             .item_groups = 3,
                             .width = 8,
                             .tower_hidden = 6,
                             .targets = 2,
                             .seed = 5};
constexpr std::int64_t kItems = 5;

template <class R>
class RerankModelTest : public OpsTest<R> {
 protected:
  /// Returns a batch of random lists: a full one, an empty one and some between. The values beyond
  /// the ends of the lists are random, too.
  HostBatch random_batch() {
    HostBatch batch{.queries = 6, .items = kItems, .lengths = {5, 0, 1, 3, 4, 2}};
    for (int group = 0; group < kShape.user_groups; ++group) {
      batch.users.push_back(this->random.reals(6 * kShape.user_columns(group).count()));
    }
    for (int group = 0; group < kShape.item_groups; ++group) {
      batch.listed.push_back(this->random.reals(6 * kItems * kShape.item_columns(group).count()));
    }
    batch.labels = this->random.reals(kShape.targets * 6 * kItems, 0.0F, 1.0F);
    return batch;
  }
  /// Returns the batch with all values beyond the ends of its lists multiplied by `factor`.
  static HostBatch padded(HostBatch batch, float factor) {
    for (auto& values : batch.listed) {
      auto const columns = static_cast<std::int64_t>(values.size()) / (6 * kItems);
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto const place = static_cast<std::int64_t>(i) / columns;
        if (place % kItems >= batch.lengths[static_cast<std::size_t>(place / kItems)]) {
          values[i] *= factor;
        }
      }
    }
    return batch;
  }

  Floats losses(HostBatch const& batch, int steps, StepsIssued const& issued = {}) {
    Device<R> const& device = this->device();
    return model_losses(device,
                        RerankModel<R>(device, kShape),
                        DeviceBatch<R>(device, batch, kShape),
                        {.kind = ops::OptimizerKind::adam, .learning_rate = 0.01F},
                        steps,
                        issued);
  }
};
TYPED_TEST_SUITE(RerankModelTest, Runtimes, RuntimeNames);

TYPED_TEST(RerankModelTest, agrees_with_double) {
  Device<TypeParam> const& device = this->device();
  auto const batch = this->random_batch();
  RerankModel<TypeParam> const model(device, kShape);
  RerankReference::Parameters parameters;
  for (auto const& entry : model.parameters().entries()) {
    auto const tensor = model.parameters().template find<float>(entry.name);
    EXPECT_TRUE(parameters.emplace(entry.name, to_doubles(to_host(tensor))).second) << entry.name;
  }
  RerankReference const reference(kShape, parameters);

  StreamPool<TypeParam> pool(device, {.groups = 2});
  GradientTape<TypeParam> tape(device);
  DeviceBatch<TypeParam> const on_device(device, batch, kShape);
  Floats logits;
  for (auto const& of_target : model.logits(tape, pool, on_device)) {
    EXPECT_EQ(of_target.shape(), (Shape{6, kItems}));
    auto const values = to_host(of_target);
    logits.insert(logits.end(), values.begin(), values.end());
  }
  expect_near(logits, reference.logits(batch), 1e-4);
  expect_near(to_host(model.loss(tape, pool, on_device)), {reference.loss(batch)}, 1e-5);
}

TYPED_TEST(RerankModelTest, places_beyond_a_length_have_no_influence) {
  auto const batch = this->random_batch();
  auto poisoned = TestFixture::padded(batch, 1e4F);
  for (std::size_t i = 0; i < poisoned.labels.size(); ++i) {
    auto const place = static_cast<std::int64_t>(i) % (6 * kItems);
    if (place % kItems >= batch.lengths[static_cast<std::size_t>(place / kItems)]) {
      poisoned.labels[i] = 1.0F - poisoned.labels[i];
    }
  }
  ASSERT_NE(poisoned.listed, batch.listed);
  EXPECT_EQ(this->losses(poisoned, 4), this->losses(batch, 4));
}

TYPED_TEST(RerankModelTest, branches_go_to_groups_in_turn_and_their_gradients_too) {
  constexpr int kGroups = 4;
  Device<TypeParam> const& device = this->device();
  RerankModel<TypeParam> const model(device, kShape);
  DeviceBatch<TypeParam> const batch(device, this->random_batch(), kShape);
  StreamPool<TypeParam> pool(device, {.groups = kGroups});
  GradientTape<TypeParam> tape(device);
  auto const trace = record_step(device, [&] { tape.backward(model.loss(tape, pool, batch)); });
  std::vector<std::string> branches;
  for (int user = 0; user < kShape.user_groups; ++user) {
    for (int item = 0; item < kShape.item_groups; ++item) {
      branches.push_back(train_rerank::pair_name(user, item));
    }
  }
  for (int target = 0; target < kShape.targets; ++target) {
    branches.push_back(train_rerank::target_name(target));
  }
  for (std::string const direction : {"", "gradients/"}) {
    for (std::size_t branch = 0; branch < branches.size(); ++branch) {
      int found = 0;
      for (std::size_t i = 0; i < trace.operations().size(); ++i) {
        auto const& name = trace.operations()[i].name;
        if (name.starts_with(direction + branches[branch] + "/")) {
          EXPECT_EQ(trace.group_of(i), static_cast<int>(branch) % kGroups) << name;
          ++found;
        }
      }
      EXPECT_GE(found, 6) << direction << branches[branch];
    }
  }
}

TYPED_TEST(RerankModelTest, a_batch_can_be_overwritten_in_place) {
  Device<TypeParam> const& device = this->device();
  auto other = this->random_batch();
  other.lengths = {1, 2, 0, 4, 5, 3};
  DeviceBatch<TypeParam> const batch(device, this->random_batch(), kShape);
  train_rerank::overwrite(batch, DeviceBatch<TypeParam>(device, other, kShape));
  for (std::size_t group = 0; group < other.users.size(); ++group) {
    EXPECT_EQ(to_host(batch.users[group]), other.users[group]);
  }
  for (std::size_t group = 0; group < other.listed.size(); ++group) {
    EXPECT_EQ(to_host(batch.items[group]), other.listed[group]);
  }
  EXPECT_EQ(to_host(batch.labels), other.labels);
  EXPECT_EQ(to_host(batch.lengths), other.lengths);
}

TYPED_TEST(RerankModelTest, learns_a_batch_by_heart) {
  auto const losses = this->losses(this->random_batch(), 60);
  EXPECT_LT(losses.back(), 0.95F * losses.front());
}

TYPED_TEST(RerankModelTest, losses_have_the_same_bits_however_a_step_is_issued) {
  auto const batch = this->random_batch();
  expect_same_bits_however_issued<TypeParam>(
      [&](StepsIssued const& issued) { return this->losses(batch, 4, issued); });
}

}  // namespace
}  // namespace msstream::testing
