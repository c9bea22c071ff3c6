// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernel_fixture.hpp"

#include <functional>
#include <utility>

namespace msstream::ops::kernels::testing {

/// Work that is recorded once and runs any number of times: as a captured graph on CUDA; on the
/// host, it is issued again each time.
template <class Stream>
class RecordedWork {
 public:
  RecordedWork(Stream stream, std::function<void(Stream)> issue)
      : stream_(stream), issue_(std::move(issue)) {}
  void run() { issue_(stream_); }

 private:
  Stream stream_;
  std::function<void(Stream)> issue_;
};

#if MSSTREAM_CUDA
template <>
class RecordedWork<CudaStream> {
 public:
  RecordedWork(CudaStream stream, std::function<void(CudaStream)> const& issue) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    issue(stream);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable_, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  ~RecordedWork() { EXPECT_EQ(cudaGraphExecDestroy(executable_), cudaSuccess); }
  RecordedWork(RecordedWork const&) = delete;
  RecordedWork& operator=(RecordedWork const&) = delete;
  void run() { EXPECT_EQ(cudaGraphLaunch(executable_, stream_), cudaSuccess); }

 private:
  CudaStream stream_;
  cudaGraphExec_t executable_ = nullptr;
};
#endif

}  // namespace msstream::ops::kernels::testing
