// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "budget.hpp"
#include "elementwise/elementwise.hpp"
#include "fake_cudart.hpp"
#include "stream/stream_context.hpp"

#include <msstream/msstream.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace fake_cuda {

namespace ms = msstream;

using Device = ms::Device<ms::Cuda>;
using Group = ms::StreamGroup<ms::Cuda>;
using Pool = ms::StreamPool<ms::Cuda>;
using Scope = ms::StreamScope<ms::Cuda>;
using Floats = ms::Tensor<float, ms::Cuda>;
using Ids = ms::Tensor<std::int64_t, ms::Cuda>;
using PinnedFloats = ms::PinnedArray<float, ms::Cuda>;

/// The number of repetitions that warm up a test. It exceeds the number of events that a stream
/// keeps, so that all later events are reused ones.
constexpr int kWarmUp = 24;

/// Checks after each test that nothing was leaked and no rule of CUDA was broken. Each test creates
/// its own device.
class FakeCudaTest : public ::testing::Test {
 protected:
  void SetUp() override { static_cast<void>(take_misuses()); }
  void TearDown() override {
    EXPECT_EQ(live(), Live{});
    EXPECT_THAT(take_misuses(), ::testing::IsEmpty());
  }
};

/// Returns the work of an operation that launches one of the library's kernels on the tensor.
inline auto one_kernel(Floats const& tensor) {
  return [data = tensor.data(), count = tensor.count()](ms::CudaStream stream) {
    ms::ops::kernels::scale(stream, data, 1.0F, data, count);
  };
}

/// Issues an operation that launches one kernel on the group.
inline ms::order::Position write(Group const& group, Floats const& tensor) {
  Scope const scope(group);
  return ms::issue("write", ms::writes(tensor), one_kernel(tensor));
}
inline ms::order::Position read(Group const& group, Floats const& tensor) {
  Scope const scope(group);
  return ms::issue("read", ms::reads(tensor), one_kernel(tensor));
}

/// Blocks until a launch thread has launched the operation at `position`. Makes no CUDA call.
inline void await_launch(Device const& device, ms::order::Position position) {
  device.context()->tracker->slot(position.stream).await_launched(position.number);
}

template <class Work>
void repeat(int times, Work&& work) {
  for (int i = 0; i < times; ++i) {
    work();
  }
}

}  // namespace fake_cuda
