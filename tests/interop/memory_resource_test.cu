// SPDX-License-Identifier: Apache-2.0
// Tests the memory resource. The file is compiled with the toolkit's CCCL, and a second time with a
// newer CCCL if CMake is given one.
#include "interop/cuda_streams.hpp"

#include <msstream/interop/memory_resource.cuh>
#include <msstream/memory/device.hpp>

#include <cuda/memory_resource>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace msstream::testing {
namespace {

using cuda::mr::device_accessible;
using Resource = MemoryResource<Cuda>;

struct NoProperty {};

#if CCCL_VERSION >= 3001000
static_assert(cuda::mr::synchronous_resource_with<Resource, device_accessible>);
static_assert(cuda::mr::resource_with<Resource, device_accessible>);
static_assert(!cuda::mr::resource_with<Resource, cuda::mr::host_accessible>);
static_assert(!cuda::mr::resource_with<Resource, NoProperty>);
#else
static_assert(cuda::mr::resource_with<Resource, device_accessible>);
static_assert(cuda::mr::async_resource_with<Resource, device_accessible>);
static_assert(!cuda::mr::async_resource_with<Resource, cuda::mr::host_accessible>);
static_assert(!cuda::mr::async_resource_with<Resource, NoProperty>);
#endif

constexpr std::size_t kBytes = 4096;

class MemoryResourceTest : public CudaTest {};

/// Allocates, fills and frees memory of `any`, a resource of any type, in the order of the stream.
template <class Any>
void use_on_stream(Any& any, cudaStream_t stream) {
#if CCCL_VERSION >= 3001000
  void* const memory = any.allocate(cuda::stream_ref(stream), kBytes, 256);
  EXPECT_EQ(filled(memory, kBytes, 7, stream), 7);
  any.deallocate(cuda::stream_ref(stream), memory, kBytes, 256);
#else
  void* const memory = any.allocate_async(kBytes, 256, cuda::stream_ref(stream));
  EXPECT_EQ(filled(memory, kBytes, 7, stream), 7);
  any.deallocate_async(memory, kBytes, 256, cuda::stream_ref(stream));
#endif
}
template <class Any>
void use_at_once(Any& any, cudaStream_t stream) {
#if CCCL_VERSION >= 3001000
  void* const memory = any.allocate_sync(kBytes, 256);
  EXPECT_EQ(filled(memory, kBytes, 8, stream), 8);
  any.deallocate_sync(memory, kBytes, 256);
#else
  void* const memory = any.allocate(kBytes, 256);
  EXPECT_EQ(filled(memory, kBytes, 8, stream), 8);
  any.deallocate(memory, kBytes, 256);
#endif
}

TEST_F(MemoryResourceTest, gives_memory_by_itself) {
  Resource resource{Device<Cuda>()};
  use_on_stream(resource, stream());
  use_at_once(resource, stream());
  EXPECT_EQ(resource.device().memory_statistics().allocations, 2U);
  EXPECT_EQ(resource.device().memory_statistics().live_bytes, 0U);
}

TEST_F(MemoryResourceTest, gives_memory_by_reference) {
  Resource resource{Device<Cuda>()};
#if CCCL_VERSION >= 3001000
  cuda::mr::resource_ref<device_accessible> reference(resource);
  cuda::mr::synchronous_resource_ref<device_accessible> synchronous(resource);
#else
  cuda::mr::async_resource_ref<device_accessible> reference(resource);
  cuda::mr::resource_ref<device_accessible> synchronous(resource);
#endif
  use_on_stream(reference, stream());
  use_at_once(reference, stream());
  use_at_once(synchronous, stream());
  EXPECT_EQ(resource.device().memory_statistics().allocations, 3U);
  EXPECT_EQ(resource.device().memory_statistics().live_bytes, 0U);
}

#if CCCL_VERSION >= 3001000
TEST_F(MemoryResourceTest, gives_memory_from_inside_an_any_resource) {
  Resource const resource{Device<Cuda>()};
  cuda::mr::any_resource<device_accessible> any(resource);
  cuda::mr::any_synchronous_resource<device_accessible> synchronous(resource);
  use_on_stream(any, stream());
  use_at_once(any, stream());
  use_at_once(synchronous, stream());
  EXPECT_EQ(resource.device().memory_statistics().allocations, 3U);
  cuda::mr::any_resource<device_accessible> const other(Resource{Device<Cuda>()});
  EXPECT_TRUE(any == cuda::mr::any_resource<device_accessible>(resource));
  EXPECT_FALSE(any == other);
}
#endif

TEST_F(MemoryResourceTest, copies_are_equal_and_give_back_for_each_other) {
  Resource one{Device<Cuda>()};
  Resource same = one;
  Resource const other(one.device());
  EXPECT_TRUE(one == same);
  EXPECT_TRUE(one != other);
  void* const memory = one.allocate(stream(), kBytes, 256);
  same.deallocate(stream(), memory, kBytes, 256);
  EXPECT_EQ(one.device().memory_statistics().live_bytes, 0U);
}

TEST_F(MemoryResourceTest, keeps_its_device) {
  auto resource = [] { return Resource{Device<Cuda>()}; }();
  use_on_stream(resource, stream());
}

TEST_F(MemoryResourceTest, memory_of_the_default_stream_of_a_thread_is_followed_by_others) {
  Resource resource{Device<Cuda>()};
  void* const first = resource.allocate(cudaStreamPerThread, kBytes, 256);
  EXPECT_EQ(filled(first, kBytes, 1, cudaStreamPerThread), 1);
  resource.deallocate(cudaStreamPerThread, first, kBytes, 256);
  use_on_stream(resource, stream());
  use_on_stream(resource, cudaStreamLegacy);
}

TEST_F(MemoryResourceTest, refuses_a_capture_and_leaves_it_valid) {
  Resource resource{Device<Cuda>()};
  auto* const memory = resource.allocate(stream(), kBytes, 256);
  ASSERT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_THROW(static_cast<void>(resource.allocate(stream(), kBytes, 256)), std::logic_error);
  resource.deallocate(stream(), memory, kBytes, 256);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
  std::size_t nodes = 1;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  EXPECT_EQ(nodes, 0U);
  cudaGraphDestroy(graph);
  use_on_stream(resource, stream());  // takes back the memory returned during the capture
  EXPECT_EQ(resource.device().memory_statistics().live_bytes, 0U);
}

}  // namespace
}  // namespace msstream::testing
