// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/pinned_array.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/trace/timeline.hpp>

#include <gmock/gmock.h>

#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class R>
class Copy : public RuntimeTest<R> {};
TYPED_TEST_SUITE(Copy, Runtimes, RuntimeNames);

/// Returns `count` elements of type T whose bytes count up from 0.
template <Element T>
[[nodiscard]] std::vector<T> counting(std::size_t count) {
  std::vector<T> elements(count);
  auto const bytes = std::as_writable_bytes(std::span(elements));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i);
  }
  return elements;
}

TYPED_TEST(Copy, every_dtype_comes_back_as_it_went) {
  Device<TypeParam> const device;
  auto const round_trip = [&]<Element T>(T) {
    for (std::int64_t const count : {0, 1, 7, 100'000}) {
      auto const sent = counting<T>(static_cast<std::size_t>(count));
      auto const back = to_host(to_device(device, sent, {count}));
      ASSERT_EQ(back.size(), sent.size());
      EXPECT_TRUE(count == 0 || std::memcmp(back.data(), sent.data(), sent.size() * sizeof(T)) == 0)
          << name_of(dtype_of<T>);
    }
  };
  round_trip(float{});
  round_trip(float16{});
  round_trip(bfloat16{});
  round_trip(std::int32_t{});
  round_trip(std::int64_t{});
  round_trip(std::uint8_t{});
}

TYPED_TEST(Copy, counts_that_do_not_fit_are_errors) {
  Device<TypeParam> const device;
  Tensor<float, TypeParam> const four(device, {4});
  Tensor<float, TypeParam> const five(device, {5});
  PinnedArray<float, TypeParam> const staged(device, 4);
  EXPECT_THROW(copy(five, staged), std::invalid_argument);
  EXPECT_THROW(copy(staged, five), std::invalid_argument);
  EXPECT_THROW(copy(four, five), std::invalid_argument);
  EXPECT_THROW((void)to_device(device, std::vector<float>(4), {5}), std::invalid_argument);
  EXPECT_NO_THROW(copy(four, staged));
}

TYPED_TEST(Copy, rows_that_overlap_are_refused_and_named) {
  Device<TypeParam> const device;
  auto const tensor = to_device(device, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {5, 2});
  auto const message = [&](std::int64_t to, std::int64_t from, std::int64_t rows) -> std::string {
    try {
      copy(tensor.rows(to, to + rows), tensor.rows(from, from + rows));
    } catch (std::invalid_argument const& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(message(1, 0, 3), AllOf(HasSubstr("elements [0, 6)"), HasSubstr("elements [2, 8)")));
  EXPECT_THAT(message(0, 1, 4), AllOf(HasSubstr("elements [2, 10)"), HasSubstr("elements [0, 8)")));
  EXPECT_THAT(message(2, 1, 2), HasSubstr("expected ranges that do not overlap"));
  EXPECT_THAT(to_host(tensor), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  // Copies between adjacent rows, to identical rows, and of no rows within other rows are accepted.
  EXPECT_EQ(message(2, 0, 2), "");
  EXPECT_EQ(message(1, 1, 3), "");
  EXPECT_EQ(message(2, 2, 0), "");
  EXPECT_THAT(to_host(tensor), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 8, 9));
}

TYPED_TEST(Copy, each_direction_has_its_stream) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  StreamScope const scope(pool[1]);
  PinnedArray<float, TypeParam> const staged(device, 4);
  Tensor<float, TypeParam> const first(device, {4});
  Tensor<float, TypeParam> const second(device, {4});
  device.start_spans();
  copy(first, staged);
  copy(second, first);
  copy(staged, second);
  auto const timeline = device.stop_spans();
  Order lanes;
  for (auto const& span : timeline.spans()) {
    lanes.push_back(span.name + " on " + span.lane);
  }
  EXPECT_THAT(
      lanes,
      ElementsAre(
          "copy_h2d on group 1 h2d", "copy_d2d on group 1 compute", "copy_d2h on group 1 d2h"));
}

// group 1 h2d     = [gate, copy_h2d]
// group 1 compute = [copy_d2d after copy_h2d]
// group 1 d2h     = [copy_d2h after copy_d2d]
TYPED_TEST(Copy, a_timeline_has_the_waits_between_its_operations) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  StreamScope const scope(pool[1]);
  PinnedArray<float, TypeParam> const staged(device, 4);
  Tensor<float, TypeParam> const first(device, {4});
  Tensor<float, TypeParam> const second(device, {4});
  Gate gate;
  gate.hold(pool[1].h2d());  // so that no copy is known to be complete
  device.start_spans();
  copy(first, staged);
  copy(second, first);
  copy(staged, second);
  gate.open();
  auto const timeline = device.stop_spans();
  ASSERT_EQ(timeline.spans().size(), 3U);
  std::vector<trace::Timeline::Wait> expected;
  for (std::size_t i = 0; i + 1 < 3; ++i) {
    auto const& from = timeline.spans()[i];
    auto const& to = timeline.spans()[i + 1];
    expected.push_back({from.stream, from.number, to.stream, to.number});
  }
  EXPECT_EQ(timeline.waits(), expected);
  EXPECT_THAT(timeline.trace_json(), HasSubstr(R"("bp": "e")"));

  // A recording has only its own waits.
  pool.synchronize();
  device.start_spans();
  copy(second, first);
  EXPECT_TRUE(device.stop_spans().waits().empty());
}

TYPED_TEST(Copy, to_device_does_not_wait_for_memory_that_computing_has_just_let_go) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  std::vector<float> const elements(100, 1.0F);
  std::optional<Tensor<float, TypeParam>> old(to_device(device, elements, {100}));
  pool.synchronize();
  Gate gate;
  // The queue of the compute stream is [wait for the test's gate, use]; that of the h2d stream is
  // [copy].
  gate.hold(pool[0].compute());
  issue("use", writes(*old), [](auto) {});
  old.reset();
  auto const waits = device.wait_counts().needed;
  auto const next = to_device(device, elements, {100});
  EXPECT_EQ(device.wait_counts().needed, waits);
}

TYPED_TEST(Copy, merged_groups_copy_on_their_one_stream_without_waits) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1, .merge_streams = true});
  StreamScope const scope(pool[0]);
  auto const tensor = to_device(device, std::vector<float>{1, 2, 3}, {3});
  EXPECT_THAT(to_host(tensor), ElementsAre(1, 2, 3));
  EXPECT_EQ(device.wait_counts().needed, 0U);
}

TYPED_TEST(Copy, pinned_memory_is_handed_out_again_only_when_its_copies_are_over) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  Tensor<std::uint8_t, TypeParam> const target(device, {1000});
  std::optional<PinnedArray<std::uint8_t, TypeParam>> first(std::in_place, device, 1000);
  std::fill_n(first->data(), 1000, std::uint8_t{1});
  auto* const memory = first->data();
  {
    Gate gate;
    gate.hold(pool[0].h2d());
    copy(target, *first);
    first.reset();
    PinnedArray<std::uint8_t, TypeParam> const second(device, 1000);
    ASSERT_NE(second.data(), memory);
    std::fill_n(second.data(), 1000, std::uint8_t{2});
  }
  EXPECT_EQ(to_host(target), std::vector<std::uint8_t>(1000, 1));
  pool.synchronize();
  std::vector<PinnedArray<std::uint8_t, TypeParam>> all;
  bool reused = false;
  for (int i = 0; i < 3; ++i) {
    reused = reused || all.emplace_back(device, 1000).data() == memory;
  }
  EXPECT_TRUE(reused) << "the copy is over";
}

TYPED_TEST(Copy, wait_is_for_the_copies_to_and_from_the_array) {
  Device<TypeParam> const device;
  auto const tensor = to_device(device, std::vector<std::int32_t>{1, 2, 3}, {3});
  PinnedArray<std::int32_t, TypeParam> const staged(device, 3);
  copy(staged, tensor);
  staged.wait();
  EXPECT_THAT(std::vector(staged.elements().begin(), staged.elements().end()),
              ElementsAre(1, 2, 3));
  copy(tensor, staged);
  staged.wait();
  staged.elements()[0] = 9;  // the copy from it is complete
  EXPECT_THAT(to_host(tensor), ElementsAre(1, 2, 3));
}

TYPED_TEST(Copy, to_host_runs_the_devices_checks) {
  Device<TypeParam> const device;
  auto const tensor = zeros<float>(device, {3});
  EXPECT_THAT(to_host(tensor), ElementsAre(0, 0, 0));
  device.state()->add_check([] { throw std::out_of_range("id 7 of a table of 5 rows"); });
  EXPECT_THROW((void)to_host(tensor), std::out_of_range);
}

}  // namespace
}  // namespace msstream::testing
