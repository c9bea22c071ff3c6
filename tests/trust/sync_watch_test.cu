// SPDX-License-Identifier: Apache-2.0
// What calls into CUDA inside a stream scope make the streams wait, whoever makes them.
#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>

#include <cuda_runtime_api.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using R = Checked<Cuda>;

__global__ void touch(float* element) {
  *element = 1.0F;
}

/// A call of third-party code, as far as msstream knows.
struct Call {
  std::string name;
  std::function<void(cudaStream_t scope_stream)> make;
  bool is_found;
};

std::vector<Call> calls() {
  static float on_host[4] = {};
  static float* on_device = [] {
    void* memory = nullptr;
    cudaMalloc(&memory, sizeof(on_host));
    return static_cast<float*>(memory);
  }();
  static void* pinned = [] {
    void* memory = nullptr;
    cudaMallocHost(&memory, sizeof(on_host));
    return memory;
  }();
  constexpr std::size_t bytes = sizeof(on_host);
  return {
      {"cudaDeviceSynchronize", [](auto) { cudaDeviceSynchronize(); }, true},
      {"cudaMalloc",
       [](auto) {
         void* memory = nullptr;
         cudaMalloc(&memory, 256);
         cudaFree(memory);
       },
       true},
      {"cudaMemcpy", [](auto) { cudaMemcpy(on_device, on_host, bytes, cudaMemcpyDefault); }, true},
      {"cudaMemset", [](auto) { cudaMemset(on_device, 0, bytes); }, true},
      {"pageable cudaMemcpyAsync",
       [](auto s) { cudaMemcpyAsync(on_device, on_host, bytes, cudaMemcpyHostToDevice, s); },
       true},
      {"cudaMemsetAsync on the default stream",
       [](auto) { cudaMemsetAsync(on_device, 0, bytes, nullptr); },
       true},
      {"a kernel on the default stream", [](auto) { touch<<<1, 1>>>(on_device); }, true},
      {"a kernel on the scope's stream", [](auto s) { touch<<<1, 1, 0, s>>>(on_device); }, false},
      {"cudaMemsetAsync", [](auto s) { cudaMemsetAsync(on_device, 0, bytes, s); }, false},
      {"pinned cudaMemcpyAsync",
       [](auto s) { cudaMemcpyAsync(on_device, pinned, bytes, cudaMemcpyHostToDevice, s); },
       false},
      {"cudaStreamSynchronize", [](auto s) { cudaStreamSynchronize(s); }, false}};
}

class SyncWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
    ASSERT_TRUE(SyncWatch<Cuda>::sees_calls()) << "no libcupti";
    static_cast<void>(calls());
  }
  static Device<R> device() {
    return Device<R>({.runtime = {.check = {.mode = CheckMode::count, .report_path = {}}}});
  }
};

TEST_F(SyncWatchTest, FindsCallsThatSynchroniseInsideAScope) {
  for (auto const& call : calls()) {
    auto const on = device();
    auto& checker = *on.context()->runtime->checker();
    StreamPool pool(on, {.groups = 2});
    auto const stream = pool[1].compute().native();
    call.make(stream);
    EXPECT_EQ(checker.count(), 0U) << call.name << " outside of all scopes";
    {
      StreamScope const scope(pool[1]);
      call.make(stream);
    }
    EXPECT_EQ(checker.count() > 0, call.is_found) << call.name << checker.json();
    for (auto const& report : checker.reports()) {
      EXPECT_EQ(report.kind, CheckKind::implicit_sync) << report.text();
    }
  }
}

TEST_F(SyncWatchTest, FindsThemInsideAnOperationOnALaunchThread) {
  auto const on = device();
  auto& checker = *on.context()->runtime->checker();
  StreamPool pool(on, {.groups = 2, .launch_threads = LaunchThreads::per_group});
  Tensor<float, R> const tensor(on, {16});
  {
    StreamScope const scope(pool[0]);
    issue("careless", writes(tensor), [](auto) { cudaDeviceSynchronize(); });
  }
  pool.synchronize();
  ASSERT_EQ(checker.reports().size(), 1U) << checker.json();
  EXPECT_EQ(checker.reports().front().kind, CheckKind::implicit_sync);
}

TEST_F(SyncWatchTest, TheGrowthOfMsstreamsOwnPoolsIsNone) {
  auto const on = device();
  StreamPool pool(on, {.groups = 2});
  StreamScope const scope(pool[1]);
  auto const tensor = zeros<float>(on, {1 << 20});
  EXPECT_EQ(to_host(tensor).size(), std::size_t{1} << 20U);
  EXPECT_EQ(on.context()->runtime->checker()->count(), 0U)
      << on.context()->runtime->checker()->json();
}

}  // namespace
}  // namespace msstream::testing
