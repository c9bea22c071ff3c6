// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer_fixture.hpp"

namespace msstream::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TYPED_TEST_SUITE(WriterTest, Runtimes, RuntimeNames);

TYPED_TEST(WriterTest, a_checkpoint_has_the_values_of_its_step) {
  for (std::size_t const device_bytes :
       {std::size_t{0}, std::size_t{700}, std::size_t{9000}, std::size_t{10'000}, kEverything}) {
    for (std::size_t const pinned_bytes : {1024, 5000, 1 << 20}) {
      SCOPED_TRACE("device " + std::to_string(device_bytes) + ", pinned " +
                   std::to_string(pinned_bytes));
      Device<TypeParam> const device;
      StreamPool pool(device, {.groups = 1});
      StreamScope const scope(pool[0]);
      SmallModel<TypeParam> const model(device);
      Writer writer(model.tensors(),
                    this->options({.device_bytes = device_bytes, .pinned_bytes = pinned_bytes}));
      EXPECT_LE(writer.device_bytes(), device_bytes);
      EXPECT_LE(writer.pinned_bytes(), pinned_bytes);
      for (std::uint8_t step = 1; step <= 6; ++step) {
        model.step(step);
        if (step % 2 == 0) {
          writer.save({.step = step});
        }
      }
      writer.wait();
      for (int const step : {2, 4, 6}) {
        EXPECT_THAT(bytes_of_tensors(writer.path_of(step)), ElementsAre(step));
      }
      SmallModel<TypeParam> const loaded(device);
      EXPECT_EQ(checkpoint::load(writer.path_of(4), loaded.tensors()).step, 4);
      EXPECT_THAT(to_host(loaded.ids), Each(0x0404040404040404));
    }
  }
}

/// Saves bytes of 7, so that the writer's memory has them, and no bytes of an earlier test,
/// wherever a later copy has not arrived when it is read.
template <class R>
void save_others(StreamPool<R>& pool, SmallModel<R> const& model, detail::SnapshotWriter& writer) {
  model.step(7);
  pool.synchronize();
  writer.save({.step = 0}, std::source_location::current());
  writer.wait();
}

/// Snapshots a tensor of which step 1 is complete, step 2 is issued behind a gate before the
/// snapshot, and step 3 is issued after it; returns the bytes that the file has. The tensor is
/// copied on the device first if `staged`.
///
/// s0 = [step 1, gate, step 2, step 3], writer = [copy]
template <class R>
std::vector<int> bytes_behind_gate(bool staged) {
  TemporaryFolder const folder;
  Device<R> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  SmallModel<R> const model(device);
  detail::SnapshotWriter writer(
      model.tensors(), {.folder = folder.path(), .device_bytes = staged ? kEverything : 0});
  save_others(pool, model, writer);
  model.step(1);
  pool.synchronize();
  Gate gate;
  gate.hold(pool[0].compute());
  model.step(2);
  writer.save({.step = 2}, std::source_location::current());
  model.step(3);
  if constexpr (!keeps_waits<R>) {
    writer.wait();
  }
  gate.open();
  writer.wait();
  return bytes_of_tensors(writer.path_of(2));
}

/// Like bytes_behind_gate(), with the gate before the copies of the snapshot.
///
/// s0 = [step 1, step 2], writer = [gate, copy]
template <class R>
std::vector<int> bytes_before_gate(bool staged) {
  TemporaryFolder const folder;
  Device<R> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  SmallModel<R> const model(device);
  detail::SnapshotWriter writer(
      model.tensors(), {.folder = folder.path(), .device_bytes = staged ? kEverything : 0});
  save_others(pool, model, writer);
  model.step(1);
  pool.synchronize();
  Gate gate;
  StreamGroup<R> const copies(writer.group());
  gate.hold(staged ? copies.compute() : copies.d2h());
  writer.save({.step = 1}, std::source_location::current());
  model.step(2);
  if constexpr (!keeps_waits<R>) {
    pool.synchronize();
  }
  gate.open();
  writer.wait();
  return bytes_of_tensors(writer.path_of(1));
}

TYPED_TEST(WriterTest, copies_after_the_work_of_its_step_and_before_that_of_the_next) {
  for (bool const staged : {false, true}) {
    EXPECT_THAT(bytes_behind_gate<TypeParam>(staged), ElementsAre(2)) << staged;
    EXPECT_THAT(bytes_before_gate<TypeParam>(staged), ElementsAre(1)) << staged;
  }
}

TEST(WriterWithoutWaits, has_the_values_of_other_steps) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the copies race with the steps on purpose";
#endif
  EXPECT_THAT(bytes_behind_gate<HostWithoutWaits>(false), ElementsAre(1));
  // Step 2 seems to have followed the copy, so the writer takes the copy for complete if it has not
  // begun to wait for it.
  EXPECT_NE(bytes_before_gate<HostWithoutWaits>(false), std::vector<int>{1});
  // The copy to the host does not even wait for the copy on the device.
  EXPECT_NE(bytes_behind_gate<HostWithoutWaits>(true), std::vector<int>{2});
}

TYPED_TEST(WriterTest, saving_blocks_neither_the_host_nor_the_device) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  SmallModel<TypeParam> const model(device);
  Writer writer(model.tensors(), this->options());
  Gate gate;
  gate.hold(pool[0].compute());
  model.step(1);
  writer.save({.step = 1});
  EXPECT_TRUE(writer.is_writing());
  EXPECT_THAT(this->folder_.names().size(), ::testing::Le(1U)) << "only the unfinished file";
  gate.open();
  writer.wait();
  EXPECT_FALSE(writer.is_writing());
  EXPECT_THAT(this->folder_.names(), ElementsAre("checkpoint-000000001.safetensors"));
}

TYPED_TEST(WriterTest, memory_is_taken_once_and_within_the_bounds) {
  Device<TypeParam> const device;
  SmallModel<TypeParam> const model(device);
  auto const live = [&] { return device.memory_statistics().live_bytes; };
  auto const pinned = [&] { return device.pinned_memory_statistics().live_bytes; };
  auto const live_before = live();
  auto const pinned_before = pinned();
  Writer writer(model.tensors(), this->options({.device_bytes = 2048, .pinned_bytes = 4096}));
  EXPECT_EQ(writer.device_bytes(), 2048U);
  EXPECT_EQ(writer.pinned_bytes(), 4096U);
  EXPECT_GE(live() - live_before, 2048U);
  EXPECT_GE(pinned() - pinned_before, 4096U);
  auto const live_made = live();
  auto const pinned_made = pinned();
  auto const reserved_made = device.memory_statistics().peak_reserved_bytes;
  for (int step = 1; step < 5; ++step) {
    model.step(static_cast<std::uint8_t>(step));
    writer.save({.step = step});
    EXPECT_EQ(live(), live_made);
    EXPECT_EQ(pinned(), pinned_made);
  }
  EXPECT_EQ(device.memory_statistics().peak_reserved_bytes, reserved_made);
}

}  // namespace
}  // namespace msstream::testing
