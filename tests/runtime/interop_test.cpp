// SPDX-License-Identifier: Apache-2.0
// Tests that a runtime tells apart streams that other code has created.
#include "runtime/runtime_fixture.hpp"

#include <msstream/runtime/interop.hpp>
#include <msstream/runtime/sim.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <set>
#include <thread>

#if MSSTREAM_CUDA
#include <cuda_runtime_api.h>
#endif

namespace msstream::testing {
namespace {

template <class R>
class Interop : public RuntimeTest<R> {};
TYPED_TEST_SUITE(Interop, Runtimes, RuntimeNames);

static_assert(!InteropRuntime<Sim>);

TYPED_TEST(Interop, a_stream_has_one_id) {
  auto const stream = this->stream();
  auto const first = this->runtime->identify(stream);
  auto const again = this->runtime->identify(stream);
  ASSERT_TRUE(first.has_value() && again.has_value());
  EXPECT_EQ(first->id, again->id);
  EXPECT_FALSE(first->stays);
}

TYPED_TEST(Interop, a_stream_at_the_address_of_one_that_is_gone_has_another_id) {
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 50; ++i) {
    auto const stream = this->runtime->create_stream(StreamPriority::normal);
    auto const identity = this->runtime->identify(stream);
    this->runtime->synchronize_stream(stream);
    this->runtime->destroy_stream(stream);
    ASSERT_TRUE(identity.has_value());
    EXPECT_TRUE(ids.insert(identity->id).second) << "stream " << i;
  }
}

#if MSSTREAM_CUDA

class InteropOnCuda : public RuntimeTest<Cuda> {};

TEST_F(InteropOnCuda, the_default_stream_stays) {
  auto const by_null = runtime->identify(nullptr);
  auto const by_name = runtime->identify(cudaStreamLegacy);
  ASSERT_TRUE(by_null.has_value() && by_name.has_value());
  EXPECT_EQ(by_null->id, by_name->id);
  EXPECT_TRUE(by_null->stays);
}

TEST_F(InteropOnCuda, each_thread_has_a_default_stream_of_its_own) {
  auto const mine = runtime->identify(cudaStreamPerThread);
  std::optional<ForeignStream> theirs;
  std::thread([&] { theirs = runtime->identify(cudaStreamPerThread); }).join();
  ASSERT_TRUE(mine.has_value() && theirs.has_value());
  EXPECT_NE(mine->id, theirs->id);
  EXPECT_EQ(mine->id, runtime->identify(cudaStreamPerThread)->id);
  EXPECT_FALSE(mine->stays);
}

TEST_F(InteropOnCuda, a_captured_stream_has_no_id_and_its_capture_goes_on) {
  auto const captured = stream();
  ASSERT_EQ(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(runtime->identify(captured), std::nullopt);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(captured, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_TRUE(runtime->identify(captured).has_value());
}

TEST_F(InteropOnCuda, a_visitor_may_ask_for_events_while_another_stream_is_captured) {
  auto const captured = stream();
  auto const done = recorded(stream());
  runtime->synchronize(done);
  ASSERT_EQ(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), cudaSuccess);
  {
    auto const visit = runtime->visit();
    EXPECT_TRUE(runtime->query(done));
  }
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(captured, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_F(InteropOnCuda, a_visit_leaves_the_callers_device_and_capture_mode) {
  auto mode = cudaStreamCaptureModeThreadLocal;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  auto const last = Cuda::device_count() - 1;
  ASSERT_EQ(cudaSetDevice(last), cudaSuccess);
  {
    auto const visit = runtime->visit();
    int during = -1;
    cudaGetDevice(&during);
    EXPECT_EQ(during, runtime->ordinal());
  }
  int after = -1;
  cudaGetDevice(&after);
  EXPECT_EQ(after, last);
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeThreadLocal);
  runtime->make_current();
}

#endif

}  // namespace
}  // namespace msstream::testing
