// SPDX-License-Identifier: Apache-2.0
#include <msstream/memory/device.hpp>
#include <msstream/tensor/dlpack.hpp>

#include <gtest/gtest.h>

#if __has_include(<dlpack/dlpack.h>)

#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"

#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A tensor of floats of another library, which counts how often its memory is given back.
struct Foreign {
  std::vector<float> elements{1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> shape{2, 3};
  std::vector<std::int64_t> strides{3, 1};
  int given_back = 0;
  DLManagedTensor managed{
      {elements.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), strides.data(), 0},
      &given_back,
      [](DLManagedTensor* self) { ++*static_cast<int*>(self->manager_ctx); }};
};

template <class Change>
[[nodiscard]] std::string refusal(Change&& change) {
  Device<Host> const device;
  Foreign foreign;
  change(foreign);
  std::string message = "accepted";
  try {
    (void)from_dlpack<float>(device, &foreign.managed);
  } catch (std::invalid_argument const& error) {
    message = error.what();
  }
  EXPECT_EQ(foreign.given_back, 1) << "also a refused tensor is given back, once";
  return message;
}

TEST(FromDlpack, shares_the_elements_and_gives_them_back) {
  Device<Host> const device;
  Foreign foreign;
  {
    auto const tensor = from_dlpack<float>(device, &foreign.managed);
    EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
    EXPECT_EQ(tensor.data(), foreign.elements.data());
    EXPECT_THAT(to_host(tensor), ElementsAre(1, 2, 3, 4, 5, 6));
    auto const row = tensor.rows(1, 2);
    copy(row, to_device(device, std::vector<float>{7, 8, 9}, {1, 3}));
    EXPECT_EQ(foreign.given_back, 0);
  }
  EXPECT_EQ(foreign.given_back, 1);
  EXPECT_THAT(foreign.elements, ElementsAre(1, 2, 3, 7, 8, 9));
  EXPECT_EQ(device.memory_statistics().live_bytes, 0U);
}

TEST(FromDlpack, takes_what_is_row_major_however_it_is_said) {
  EXPECT_EQ(refusal([](Foreign& f) { f.managed.dl_tensor.strides = nullptr; }), "accepted");
  EXPECT_EQ(refusal([](Foreign& f) {
              f.shape = {1, 6};
              f.strides = {100, 1};
            }),
            "accepted")
      << "the stride of one row means nothing";
  EXPECT_EQ(refusal([](Foreign& f) {
              f.shape = {0, 3};
              f.managed.dl_tensor.data = nullptr;
            }),
            "accepted");
  EXPECT_EQ(refusal([](Foreign& f) { f.managed.dl_tensor.ndim = 0; }), "accepted") << "a scalar";
}

TEST(FromDlpack, starts_at_the_byte_offset) {
  Device<Host> const device;
  Foreign foreign;
  foreign.shape = {1, 2};
  foreign.managed.dl_tensor.byte_offset = 4 * sizeof(float);
  EXPECT_THAT(to_host(from_dlpack<float>(device, &foreign.managed)), ElementsAre(5, 6));
}

TEST(FromDlpack, refuses_what_does_not_fit_and_says_what_was_expected) {
  auto const dtype = [](DLDataType other) {
    return refusal([other](Foreign& f) { f.managed.dl_tensor.dtype = other; });
  };
  EXPECT_THAT(dtype({kDLInt, 32, 1}), HasSubstr("type code 0, 32 bits, 1 lanes; expected float32"));
  EXPECT_THAT(dtype({kDLFloat, 64, 1}), HasSubstr("64 bits"));
  EXPECT_THAT(dtype({kDLFloat, 32, 4}), HasSubstr("4 lanes"));
  EXPECT_THAT(refusal([](Foreign& f) {
                f.managed.dl_tensor.device = {kDLCUDA, 1};
              }),
              HasSubstr("device type 2, number 1; expected type 1, number 0"));
  EXPECT_THAT(refusal([](Foreign& f) {
                f.strides = {1, 2};
              }),
              HasSubstr("stride 2 in dimension 1 of a tensor of shape [2, 3]; expected 1"));
  EXPECT_THAT(refusal([](Foreign& f) { f.strides = {4, 1}; }), HasSubstr("expected 3"));
  EXPECT_THAT(refusal([](Foreign& f) { f.managed.dl_tensor.byte_offset = 2; }),
              HasSubstr("byte offset 2 included); expected a multiple of 4"));
  EXPECT_THAT(refusal([](Foreign& f) { f.managed.dl_tensor.ndim = 5; }),
              HasSubstr("5 dimensions; expected at most 4"));
  EXPECT_THAT(refusal([](Foreign& f) { f.shape = {-1, 3}; }), HasSubstr("negative"));
  EXPECT_THAT(refusal([](Foreign& f) { f.managed.dl_tensor.data = nullptr; }),
              HasSubstr("no memory for a tensor of shape [2, 3]"));
}

/// Returns the order in which a use on a held stream ran and the memory was given back to its
/// owner.
[[nodiscard]] Order order_of_use_and_return(bool frozen) {
  Journal journal;
  Gate gate;
  auto const device = watched_device<Host>({});
  watch_waits(watch_of(device), gate, journal);
  Foreign foreign;
  foreign.managed.manager_ctx = &journal;
  foreign.managed.deleter = [](DLManagedTensor* self) {
    static_cast<Journal*>(self->manager_ctx)->add("given back");
  };
  {
    auto tensor = from_dlpack<float>(device, &foreign.managed);
    if (frozen) {
      tensor.freeze();
    }
    // The queue of the default group is [wait for the test's gate, use].
    gate.hold(device.default_group().compute());
    issue("use", reads(tensor), journal.entry(device, "use"));
  }
  gate.open();
  device.default_group().synchronize();
  return journal.entries();
}

TEST(FromDlpack, gives_back_only_after_the_last_use) {
  EXPECT_THAT(order_of_use_and_return(false), ElementsAre("use", "given back"));
}
TEST(FromDlpack, gives_back_a_frozen_tensor_only_after_its_untracked_reads) {
  EXPECT_THAT(order_of_use_and_return(true), ElementsAre("use", "given back"));
}

TEST(FromDlpack, the_first_use_follows_the_producers_stream) {
  Device<Host> const device;
  Stream<Host> producer(device);
  PinnedArray<float, Host> const staged(device, 6);
  Foreign foreign;
  Gate gate;
  // The queue of `producer` is [wait for the test's gate, write 9]; that of the default group's d2h
  // stream is [wait for the write, copy].
  gate.hold(producer);
  device.runtime().call_host(producer.native(), [&] { foreign.elements[0] = 9; });
  auto const tensor = from_dlpack<float>(device, &foreign.managed, producer);
  copy(staged, tensor);
  EXPECT_EQ(device.wait_counts().issued, 1U);
  gate.open();
  staged.wait();
  EXPECT_EQ(staged.data()[0], 9);
}

template <class R>
class ToDlpack : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ToDlpack, Runtimes, RuntimeNames);

TYPED_TEST(ToDlpack, describes_the_tensor_and_keeps_its_memory) {
  Device<TypeParam> const device;
  auto* const managed =
      to_dlpack(to_device(device, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}, {3, 2}));
  auto const& tensor = managed->dl_tensor;
  EXPECT_EQ(tensor.ndim, 2);
  EXPECT_THAT(std::vector(tensor.shape, tensor.shape + 2), ElementsAre(3, 2));
  EXPECT_THAT(std::vector(tensor.strides, tensor.strides + 2), ElementsAre(2, 1));
  EXPECT_EQ(tensor.byte_offset, 0U);
  EXPECT_EQ(tensor.dtype.code, kDLInt);
  EXPECT_EQ(tensor.dtype.bits, 64);
  EXPECT_GT(device.memory_statistics().live_bytes, 0U);
  managed->deleter(managed);
  EXPECT_EQ(device.memory_statistics().live_bytes, 0U);
}

TYPED_TEST(ToDlpack, comes_back_as_it_went_for_every_dtype) {
  Device<TypeParam> const device;
  auto const round_trip = [&]<Element T>(T) {
    Tensor<T, TypeParam> const sent(device, {2, 0, 3});
    auto const back = from_dlpack<T>(device, to_dlpack(sent));
    EXPECT_EQ(back.shape(), sent.shape());
    EXPECT_EQ(back.data(), sent.data());
  };
  round_trip(float{});
  round_trip(float16{});
  round_trip(bfloat16{});
  round_trip(std::int32_t{});
  round_trip(std::int64_t{});
  round_trip(std::uint8_t{});
}

/// Returns the order in which an operation "write", a consumer's work on its own stream, and an
/// operation "write again" ran. The last one is issued after the consumer has released the tensor.
template <Runtime R>
[[nodiscard]] Order order_around_consumer() {
  Device<R> const device;
  Stream<R> consumer(device);
  Tensor<float, R> const tensor(device, {4});
  Journal journal;
  Gate before;
  Gate during;
  // The queue of the default group is [wait for the gate `before`, "write", "write again"]; that of
  // the consumer is [wait for the gate `during`, "consume"].
  before.hold(device.default_group().compute());
  issue("write", writes(tensor), journal.entry(device, "write"));
  auto* const managed = to_dlpack(tensor, consumer);
  during.hold(consumer);
  device.runtime().call_host(consumer.native(), journal.entry("consume"));
  managed->deleter(managed);
  issue("write again", writes(tensor), journal.entry(device, "write again"));
  if constexpr (!keeps_waits<R>) {
    during.open();
    consumer.synchronize();
  }
  before.open();
  during.open();
  device.default_group().synchronize();
  return journal.entries();
}

TYPED_TEST(ToDlpack, a_consumers_stream_is_ordered_before_and_after) {
  EXPECT_THAT(order_around_consumer<TypeParam>(), ElementsAre("write", "consume", "write again"));
}
TEST(ToDlpackWithoutWaits, a_consumers_stream_overtakes) {
  EXPECT_THAT(order_around_consumer<HostWithoutWaits>(),
              ElementsAre("consume", "write", "write again"));
}

}  // namespace
}  // namespace msstream::testing

#else

TEST(Dlpack, is_tested) {
  GTEST_SKIP() << "<dlpack/dlpack.h> is not installed (libdlpack-dev)";
}

#endif
