// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "budget.hpp"
#include "fake_cudart.hpp"

#include <msstream/msstream.hpp>

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

/// How often a test repeats what it warms up: more than a stream keeps events, so that afterwards
/// every event is one that was used before.
constexpr int kWarmUp = 24;

/// Each test uses a device of its own, leaves nothing behind and breaks no rule of CUDA.
class FakeCudaTest : public ::testing::Test {
 protected:
  void SetUp() override { static_cast<void>(take_misuses()); }
  void TearDown() override {
    EXPECT_EQ(live(), Live{});
    EXPECT_THAT(take_misuses(), ::testing::IsEmpty());
  }
};

/// The work of an operation: one kernel of the library's on the tensor.
inline auto one_kernel(Floats const& tensor) {
  return [data = tensor.data(), count = tensor.count()](ms::CudaStream stream) {
    ms::ops::kernels::scale(stream, data, 1.0F, data, count);
  };
}

/// One operation of one kernel, on the group.
inline ms::order::Position write(Group& group, Floats const& tensor) {
  Scope const scope(group);
  return ms::issue("write", ms::writes(tensor), one_kernel(tensor));
}
inline ms::order::Position read(Group& group, Floats const& tensor) {
  Scope const scope(group);
  return ms::issue("read", ms::reads(tensor), one_kernel(tensor));
}

/// Blocks until a launch thread has launched the operation; calls nothing of CUDA.
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
