// SPDX-License-Identifier: Apache-2.0
#include "training/click_batch.hpp"

#include "datasets/stored_rows.hpp"
#include "ops/ops_fixture.hpp"
#include "training/epoch_plan.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/stream/stream_pool.hpp>

namespace msstream::training {
namespace {

using testing::Floats;
using testing::Integers;
using testing::OpsTest;
using testing::RuntimeNames;
using testing::Runtimes;

template <class R>
using ClickBatchTest = OpsTest<R>;
TYPED_TEST_SUITE(ClickBatchTest, Runtimes, RuntimeNames);

/// Returns three rows of two fields with two keys each, two continuous values and two labels.
datasets::StoredRows three_clicks() {
  data::Schema const schema({{"a", data::ColumnType::int64, 2},
                             {"b", data::ColumnType::hashed, 2},
                             {"continuous", data::ColumnType::float32, 2},
                             {"y"},
                             {"z"}});
  data::Chunk chunk(schema);
  chunk.ints("a") = {1, 2, 3, 4, 5, 6};
  chunk.ints("b") = {10, 20, 30, 40, 50, 60};
  chunk.floats("continuous") = {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F};
  chunk.floats("y") = {1, 0, 1};
  chunk.floats("z") = {0, 0, 1};
  return {schema, {chunk}};
}

TYPED_TEST(ClickBatchTest, has_the_columns_by_their_roles_on_the_device_and_from_the_host) {
  StreamPool pool(this->device(), {.groups = 1});
  auto const rows = three_clicks();
  auto const columns = datasets::click_columns(rows.schema());
  EXPECT_EQ(columns.fields(), 2);
  EXPECT_EQ(columns.tasks(), 2);
  EXPECT_EQ(columns.hotness, 2);
  EXPECT_EQ(columns.continuous, 2);
  data::LoaderOptions const options{.batch_size = 4, .last_batch = data::LastBatch::padded};
  data::DeviceLoader on_device(this->device(), pool[0], rows.reader(), options);
  data::Loader on_host(rows.reader(), options);
  auto const uploaded = on_device.next().value();
  auto const staged = on_host.next().value();
  for (auto const& batch :
       {click_batch(columns, uploaded), click_batch(columns, staged, this->device())}) {
    EXPECT_EQ(batch.keys.shape(), Shape({2, 4, 2}));
    EXPECT_EQ(to_host(batch.keys),
              (Integers{1, 2, 3, 4, 5, 6, -1, -1, 10, 20, 30, 40, 50, 60, -1, -1}));
    EXPECT_EQ(batch.continuous.shape(), Shape({4, 2}));
    EXPECT_EQ(to_host(batch.continuous), (Floats{0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0, 0}));
    EXPECT_EQ(batch.labels.shape(), Shape({2, 4, 1}));
    EXPECT_EQ(to_host(batch.labels), (Floats{1, 0, 1, 0, 0, 0, 1, 0}));
  }
}

TYPED_TEST(ClickBatchTest, is_copied_by_one_operation_for_each_tensor_of_the_loader) {
  StreamPool pool(this->device(), {.groups = 1});
  auto const rows = three_clicks();
  auto const columns = datasets::click_columns(rows.schema());
  data::DeviceLoader loader(this->device(), pool[0], rows.reader(), {.batch_size = 3});
  auto const batch = click_batch(columns, loader.next().value());
  auto room = room_for(batch);
  EXPECT_NE(room.keys.identity(), batch.keys.identity());
  EXPECT_NE(room.floats.identity(), batch.floats.identity());
  EXPECT_FALSE(room.next_keys);

  auto before = this->device().operation_count();
  copy(room, batch);
  EXPECT_EQ(this->device().operation_count() - before, 2U);
  EXPECT_EQ(room.keys.shape(), Shape({2, 3, 2}));
  EXPECT_EQ(to_host(room.keys), (Integers{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(room.continuous.shape(), Shape({3, 2}));
  EXPECT_EQ(to_host(room.continuous), (Floats{0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F}));
  EXPECT_EQ(room.labels.shape(), Shape({2, 3, 1}));
  EXPECT_EQ(to_host(room.labels), (Floats{1, 0, 1, 0, 0, 1}));

  // With room for the next batch's keys, these are copied too, and a batch must have them.
  room.next_keys.emplace(room.keys.device(), room.keys.shape());
  EXPECT_THROW(copy(room, batch), std::bad_optional_access);
  auto ahead = batch;
  ahead.next_keys = this->put(Integers(12, 7), {2, 3, 2});
  before = this->device().operation_count();
  copy(room, ahead);
  EXPECT_EQ(this->device().operation_count() - before, 3U);
  EXPECT_EQ(to_host(*room.next_keys), Integers(12, 7));
}

TEST(EpochPlan, counts_the_batches_of_the_loader) {
  for (auto const last :
       {data::LastBatch::partial, data::LastBatch::padded, data::LastBatch::dropped}) {
    auto rows = three_clicks();
    EpochPlan const plan{
        .rows = rows.rows(),
        .loader = {.batch_size = 2, .epochs = 3, .shuffle_rows = 3, .last_batch = last}};
    EXPECT_EQ(plan.batches_per_epoch(), last == data::LastBatch::dropped ? 1 : 2);
    data::Loader loader(rows.reader(), plan.loader);
    std::int64_t count = 0;
    while (loader.next()) {
      ++count;
    }
    EXPECT_EQ(count, plan.batch_count());
  }
}

}  // namespace
}  // namespace msstream::training
