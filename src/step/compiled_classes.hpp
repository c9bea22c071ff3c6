// SPDX-License-Identifier: Apache-2.0
// Explicit instantiations of every class in MSSTREAM_COMPILED_ONCE, for InstanceRuntime, which the
// including file defines first.
#pragma once

#include <msstream/memory/capture.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_capture.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/tensor.hpp>

namespace msstream {

template class DependencyTracker<InstanceRuntime>;
template class EventPool<InstanceRuntime>;
template class LaunchPool<InstanceRuntime>;
template class SpanRecorder<InstanceRuntime>;
template class Stream<InstanceRuntime>;
template class StreamCapture<InstanceRuntime>;
template struct StreamContext<InstanceRuntime>;
template class StreamGroup<InstanceRuntime>;
template class StreamPool<InstanceRuntime>;
template class StreamRegistry<InstanceRuntime>;
template class StreamScope<InstanceRuntime>;

template class memory::Arena<InstanceRuntime>;
template class memory::BlockPool<InstanceRuntime>;
template class memory::BlockSource<InstanceRuntime>;
template class memory::Capture<InstanceRuntime>;
template class memory::CaptureMemory<InstanceRuntime>;
template class memory::LargeBlocks<InstanceRuntime>;
template class memory::Lending<InstanceRuntime>;
template class memory::MemorySupply<InstanceRuntime>;
template class memory::Pools<InstanceRuntime>;
template class memory::PrivatePools<InstanceRuntime>;
template class memory::RuntimeMemory<InstanceRuntime>;
template class memory::Slabs<InstanceRuntime>;
template class Device<InstanceRuntime>;
template struct DeviceState<InstanceRuntime>;
template class PinnedAllocator<InstanceRuntime>;
template class StreamAwareAllocator<InstanceRuntime>;

template class Tensor<float, InstanceRuntime>;
template class Tensor<std::int32_t, InstanceRuntime>;
template class Tensor<std::int64_t, InstanceRuntime>;
template class Tensor<bfloat16, InstanceRuntime>;
template class Tensor<float16, InstanceRuntime>;

template struct ops::Bags<InstanceRuntime>;
template class CapturedStep<InstanceRuntime>;
template class GradientTape<InstanceRuntime>;
template class Optimizer<InstanceRuntime>;

}  // namespace msstream
