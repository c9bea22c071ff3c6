// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

/// Tests of the CUDA calls of data transfers: one asynchronous copy per transfer, one dependency if
/// the copy is on another stream than the work, and one event if the host waits for the data.
namespace fake_cuda {
namespace {

/// A device with one group. `merge` determines whether copies run on the group's compute stream.
struct OneGroup {
  explicit OneGroup(bool merge) : pool(device, {.groups = 1, .merge_streams = merge}) {}

  Device device;
  Pool pool;
  Group const& group = pool[0];
  Scope scope{group};
};

class CopyBudget : public FakeCudaTest, public ::testing::WithParamInterface<bool> {
 protected:
  /// Returns the number of stream dependencies that a data dependency between a copy and a compute
  /// operation needs.
  [[nodiscard]] static std::uint64_t crossing() { return GetParam() ? 0 : 1; }
};

INSTANTIATE_TEST_SUITE_P(Streams, CopyBudget, ::testing::Bool(), [](auto const& merged) {
  return merged.param ? "merged" : "separate";
});

TEST_P(CopyBudget, to_the_device_is_one_copy) {
  OneGroup const on(GetParam());
  PinnedFloats const staged(on.device, 1024);
  Floats const tensor(on.device, {1024}, ms::StreamKind::h2d);
  auto const upload = [&] { ms::copy(tensor, staged); };
  upload();
  EXPECT_TRUE(within(calls_of(upload), Budget().exactly("cudaMemcpyAsync", 1)));
}

// Each read waits for the copy before it, and each copy for the read before it: h2d stream = [copy,
// copy, …], compute stream = [read, read, …].
TEST_P(CopyBudget, to_the_device_and_used_is_a_dependency_each_way) {
  OneGroup const on(GetParam());
  PinnedFloats const staged(on.device, 1024);
  Floats const tensor(on.device, {1024}, ms::StreamKind::h2d);
  auto const step = [&] {
    ms::copy(tensor, staged);
    read(on.group, tensor);
  };
  repeat(kWarmUp, step);
  EXPECT_TRUE(
      within(calls_of(step),
             Budget().launches(1).exactly("cudaMemcpyAsync", 1).dependencies(2 * crossing())));
}

TEST_P(CopyBudget, to_the_host_is_one_copy_and_one_dependency) {
  OneGroup const on(GetParam());
  PinnedFloats const staged(on.device, 1024);
  Floats const tensor(on.device, {1024});
  auto const download = [&] { ms::copy(staged, tensor); };
  repeat(kWarmUp, [&] {
    write(on.group, tensor);
    download();
  });
  write(on.group, tensor);
  EXPECT_TRUE(
      within(calls_of(download), Budget().exactly("cudaMemcpyAsync", 1).dependencies(crossing())));
}

TEST_P(CopyBudget, on_the_device_is_one_copy) {
  OneGroup const on(GetParam());
  Floats const from(on.device, {1024});
  Floats const to(on.device, {1024});
  write(on.group, from);
  EXPECT_TRUE(
      within(calls_of([&] { ms::copy(to, from); }), Budget().exactly("cudaMemcpyAsync", 1)));
}

TEST_P(CopyBudget, nothing_is_copied_of_an_empty_tensor) {
  OneGroup const on(GetParam());
  Floats const from(on.device, {0});
  Floats const to(on.device, {0});
  EXPECT_TRUE(within(calls_of([&] { ms::copy(to, from); }), Budget()));
}

TEST_P(CopyBudget, a_vector_to_the_device_is_one_copy) {
  OneGroup const on(GetParam());
  std::vector<float> const values(1024, 1.0F);
  auto const upload = [&] { static_cast<void>(ms::to_device<float>(on.device, values, {1024})); };
  repeat(kWarmUp, upload);
  // Queries once whether the copy from the previous call's staging memory is complete.
  EXPECT_TRUE(within(calls_of(upload),
                     Budget()
                         .exactly("cudaMemcpyAsync", 1)
                         .exactly("cudaEventRecord", 1)
                         .exactly("cudaEventQuery", 1)));
}

TEST_P(CopyBudget, a_vector_to_the_host_is_one_event_waited_for) {
  OneGroup const on(GetParam());
  Floats const tensor(on.device, {1024});
  auto const download = [&] { static_cast<void>(ms::to_host(tensor)); };
  repeat(kWarmUp, [&] {
    write(on.group, tensor);
    download();
  });
  write(on.group, tensor);
  EXPECT_TRUE(within(calls_of(download),
                     Budget()
                         .exactly("cudaMemcpyAsync", 1)
                         .exactly("cudaStreamWaitEvent", crossing())
                         .exactly("cudaEventRecord", 1 + crossing())
                         .exactly("cudaEventSynchronize", 1)));
}

TEST_P(CopyBudget, a_fill_is_one_fill) {
  OneGroup const on(GetParam());
  Floats const tensor(on.device, {1024});
  EXPECT_TRUE(
      within(calls_of([&] { ms::fill_bytes(tensor, 0); }), Budget().exactly("cudaMemsetAsync", 1)));
  EXPECT_TRUE(within(calls_of([&] { static_cast<void>(ms::zeros<float>(on.device, {1024})); }),
                     Budget().exactly("cudaMemsetAsync", 1)));
}

/// Sends data through all kinds of copies, on streams that run as late as possible, and checks the
/// values that arrive.
TEST_P(CopyBudget, what_is_counted_also_arrives) {
  OneGroup const on(GetParam());
  std::vector<float> values(1024);
  std::iota(values.begin(), values.end(), 0.0F);
  BusyDevice const busy;
  auto const sent = ms::to_device<float>(on.device, values, {1024});
  Floats const copied(on.device, {1024});
  ms::copy(copied, sent);
  EXPECT_EQ(ms::to_host(copied), values);
}

}  // namespace
}  // namespace fake_cuda
