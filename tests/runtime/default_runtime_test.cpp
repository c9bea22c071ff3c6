// SPDX-License-Identifier: Apache-2.0
// Tests that class templates use the default runtime if none is named, and that objects made from a
// device use the runtime of the device.
#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

namespace msstream {
namespace {

/// True if `Name<>` is `Name<DefaultRuntime>` for each template in `Names`.
template <template <class...> class... Names>
inline constexpr bool have_a_default = (std::is_same_v<Names<>, Names<DefaultRuntime>> && ...);

static_assert(have_a_default<Device, DeviceOptions>);
static_assert(have_a_default<Stream, StreamGroup, StreamPool, StreamLease, StreamScope>);
static_assert(have_a_default<Event, TensorHolder>);
static_assert(have_a_default<GradientTape, Optimizer, TwoStageOptions>);
static_assert(have_a_default<ops::Bags, ops::IdTensor, ops::LookupOptions, ops::DeviceCount>);
static_assert(have_a_default<ops::EmbeddingTable, ops::EmbeddingTables, ops::TableBags>);
static_assert(have_a_default<ops::RowGradients, ops::UniqueRows, ops::UniqueOptions, ops::TopK>);
static_assert(have_a_default<ops::AttentionOptions, ops::LayerNormResult>);
static_assert(have_a_default<ops::Segments, ops::SegmentForward, ops::OffsetPolicy>);
static_assert(have_a_default<ops::CrossEntropyOptions, ops::CrossEntropyResult, ops::BceResult>);
static_assert(have_a_default<ops::GateLogits, ops::Mixture, ops::OptimizerState>);
static_assert(have_a_default<serve::Inputs, serve::Forward>);
static_assert(std::is_same_v<Tensor<float>, Tensor<float, DefaultRuntime>>);
static_assert(std::is_same_v<PinnedArray<float>, PinnedArray<float, DefaultRuntime>>);
static_assert(
    std::is_same_v<ops::UniqueIds<std::int64_t>, ops::UniqueIds<std::int64_t, DefaultRuntime>>);

TEST(DefaultRuntimeTest, what_is_made_from_a_device_is_of_its_runtime) {
  using Other = Checked<Host>;
  Device<Other> const device;
  StreamPool pool(device, {.groups = 2});
  static_assert(std::is_same_v<decltype(pool), StreamPool<Other>>);
  StreamScope const scope(pool[1]);
  static_assert(std::is_same_v<decltype(scope), StreamScope<Other> const>);
  GradientTape const tape(device);
  static_assert(std::is_same_v<decltype(tape), GradientTape<Other> const>);
  Tensor<std::int64_t, Other> const ids(device, {2});
  ops::Bags const bags(ids);
  static_assert(std::is_same_v<decltype(bags), ops::Bags<Other> const>);
  ops::Segments const by_offsets(ids);
  static_assert(std::is_same_v<decltype(by_offsets), ops::Segments<Other> const>);
  ops::Segments const by_ids(ids, 3);
  static_assert(std::is_same_v<decltype(by_ids), ops::Segments<Other> const>);
  EXPECT_EQ(device.current_group(), pool[1]);
}

TEST(DefaultRuntimeTest, members_of_a_class_need_not_name_it) {
  struct Model {
    explicit Model(Device<> const& device) : pool(device, {.groups = 2}), group(pool[1]) {}
    StreamPool<> pool;
    StreamGroup<> group;
  };
  Device<Host> const host;
  StreamPool<Host> const of_the_host(host);
  EXPECT_EQ(of_the_host.groups(), StreamPoolOptions{}.groups);
#if !MSSTREAM_CUDA
  Device<> const device;
  Model const model(device);
  StreamScope<> const scope(model.group);
  EXPECT_EQ(device.current_group(), model.pool[1]);
#endif
}

}  // namespace
}  // namespace msstream
