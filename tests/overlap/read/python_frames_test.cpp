// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/python_frames.hpp"

#include "overlap/find/find.hpp"
#include "overlap/read/written_files.hpp"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace msstream::overlap {
namespace {

using ::testing::HasSubstr;
using testing::trace_of;
using PythonFramesTest = testing::ReadTest;

std::string frame(std::string_view name, double begin, double length, int thread = 1) {
  return fmt::format(
      R"(,{{"ph": "X", "cat": "python_function", "name": "{}", "pid": 9, "tid": {}, "ts": {}, "dur": {},
        "args": {{"Python id": 1}}}})",
      name,
      thread,
      begin,
      length);
}

std::string call(std::string_view name, double begin, double length, int thread = 1) {
  return fmt::format(
      R"(,{{"ph": "X", "cat": "cuda_runtime", "name": "{}", "pid": 9, "tid": {}, "ts": {}, "dur": {},
        "args": {{"correlation": {}}}}})",
      name,
      thread,
      begin,
      length,
      static_cast<int>(begin) + 1);
}

/// A kernel of the call that began then, for 2 us.
std::string kernel(double issued, double begin) {
  return fmt::format(
      R"(,{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {}, "dur": 2,
        "args": {{"device": 0, "stream": 7, "correlation": {}}}}})",
      begin,
      static_cast<int>(issued) + 1);
}

TEST_F(PythonFramesTest, a_call_has_the_innermost_function_outside_of_torch) {
  // Thread 1: <module> [0..100] > log_loss [10..50] > _call_impl [12..40] > item [13..38].
  // Thread 2: backward of torch [0..30], and nothing from 30 on. The functions come in no order.
  auto const recording = read_one(trace_of(
      (kernel(0, 2) + call("cudaLaunchKernel", 0, 1) + call("cudaMemcpyAsync", 20, 5) +
       call("cudaEventQuery", 45, 1) + call("cudaEventRecord", 60, 1) +
       call("cudaStreamSynchronize", 120, 1) + call("cudaMalloc", 22, 2, 2) +
       call("cudaFree", 40, 2, 2) + call("cudaHostAlloc", 20, 2, 3) +
       frame("<built-in method item of Tensor object at 0x7f00(1)>", 13, 25) +
       frame("torch/nn/modules/module.py(1501): _call_impl", 12, 28) +
       frame("train.py(42): log_loss", 10, 40) + frame("nn.Module: Linear_0", 11, 30) +
       frame("train.py(1): <module>", 0, 100) +
       frame("/usr/lib/python3/dist-packages/torch/autograd/function.py(307): apply", 0, 30, 2))
          .substr(1)));
  auto const line_of = [&](std::string_view name) {
    for (auto const& made : recording.calls) {
      if (recording.names[made.name] == name) {
        return recording.names[made.code];
      }
    }
    return std::string_view("no such call");
  };
  EXPECT_EQ(line_of("cudaLaunchKernel"), "train.py(1): <module>");
  EXPECT_EQ(line_of("cudaMemcpyAsync"), "train.py(42): log_loss");
  EXPECT_EQ(line_of("cudaEventQuery"), "train.py(42): log_loss");
  EXPECT_EQ(line_of("cudaEventRecord"), "train.py(1): <module>");
  EXPECT_EQ(line_of("cudaStreamSynchronize"), "");
  EXPECT_EQ(line_of("cudaMalloc"),
            "/usr/lib/python3/dist-packages/torch/autograd/function.py(307): apply");
  EXPECT_EQ(line_of("cudaFree"), "");
  EXPECT_EQ(line_of("cudaHostAlloc"), "");
  EXPECT_EQ(recording.threads.size(), 3U);
}

TEST_F(PythonFramesTest, functions_that_begin_together_are_nested_by_their_lengths) {
  auto const recording =
      read_one(trace_of((frame("inner.py(2): inner", 0, 10) + frame("outer.py(1): outer", 0, 20) +
                         call("cudaLaunchKernel", 0, 1) + call("cudaFree", 10, 1) + kernel(0, 2))
                            .substr(1)));
  EXPECT_EQ(recording.names[recording.calls.at(0).code], "inner.py(2): inner");
  EXPECT_EQ(recording.names[recording.calls.at(1).code], "outer.py(1): outer");
}

TEST_F(PythonFramesTest, evidence_names_the_lines_of_the_calls) {
  std::string events;
  for (int step = 0; step < 20; ++step) {
    double const at = 1'000.0 * step;
    events += frame("train.py(7): step", at, 990) + frame("train.py(42): log_loss", at, 900) +
              call("cudaMalloc", at, 890) + call("cudaLaunchKernel", at + 950, 5) +
              kernel(at + 950, at + 960);
  }
  auto const recording = read_one(trace_of(events.substr(1)));
  auto const report = find(recording);
  ASSERT_FALSE(report.findings.empty());
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::driver_allocation);
  EXPECT_THAT(finding.evidence.at(0).text,
              HasSubstr("before k on stream 7 (at train.py(7): step); the host was in "
                        "cudaMalloc() of 890 µs (at train.py(42): log_loss)"));
}

TEST(PythonFrames, names_without_a_line_are_no_places) {
  bool is_of_torch = false;
  for (std::string_view const name : {"",
                                      "): ",
                                      "(): f",
                                      "(12): f",
                                      "12): f",
                                      "a.py(x2): f",
                                      "a.py12): f",
                                      "nn.Module: Linear_0",
                                      "<built-in function len>"}) {
    EXPECT_FALSE(has_line(name, is_of_torch)) << name;
  }
  for (auto const& [name, of_torch] : {std::pair("train.py(42): log_loss", false),
                                       std::pair("<ipython-input-3-ab>(5): <module>", false),
                                       std::pair("mytorch/a.py(3): f", false),
                                       std::pair("torch/_ops.py(1244): __call__", true),
                                       std::pair("/a/torch/optim/sgd.py(1): step", true)}) {
    EXPECT_TRUE(has_line(name, is_of_torch)) << name;
    EXPECT_EQ(is_of_torch, of_torch) << name;
  }
}

}  // namespace
}  // namespace msstream::overlap
