// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <cuda_runtime_api.h>

#include <string>

/// Tests that a budget of CUDA calls can be exceeded: each test makes one kind of extra call that a
/// programmer might cause.
namespace fake_cuda {
namespace {

using BudgetTest = FakeCudaTest;

std::string complaint(Counts const& counted, Budget const& budget) {
  auto const result = within(counted, budget);
  EXPECT_FALSE(result);
  return result.message();
}

TEST_F(BudgetTest, names_the_call_the_count_and_the_allowance) {
  Counts counted;
  counted.add("cudaEventRecord");
  counted.add("cudaEventRecord");
  counted.add("cudaFree");
  auto const table =
      complaint(counted, Budget().at_most("cudaEventRecord", 1).exactly("cudaStreamWaitEvent", 3));
  EXPECT_EQ(table,
            "calls of CUDA beside the budget:\n"
            "  cudaEventRecord      counted 2     allowed at most 1\n"
            "  cudaFree             counted 1     allowed none\n"
            "  cudaStreamWaitEvent  counted 0     allowed 3");
}

TEST_F(BudgetTest, tells_only_what_differs) {
  Counts counted;
  counted.add("cudaFree");
  counted.add("cudaMalloc");
  Budget budget;
  budget.exactly("cudaFree", 1);
  EXPECT_EQ(complaint(counted, budget).find("cudaFree"), std::string::npos);
  EXPECT_TRUE(within(counted, budget.at_most("cudaMalloc", 2)));
}

TEST_F(BudgetTest, sees_a_call_inside_the_work_of_an_operation) {
  Device const device;
  Floats const tensor(device, {64});
  write(device.default_group(), tensor);
  auto const curious = [work = one_kernel(tensor)](ms::CudaStream stream) {
    int ordinal = -1;
    EXPECT_EQ(cudaGetDevice(&ordinal), cudaSuccess);
    work(stream);
  };
  auto const counted = calls_of([&] { ms::issue("curious", ms::writes(tensor), curious); });
  EXPECT_NE(complaint(counted, Budget().launches(1)).find("cudaGetDevice"), std::string::npos);
}

TEST_F(BudgetTest, sees_a_kernel_too_many) {
  Device const device;
  Floats const tensor(device, {64});
  write(device.default_group(), tensor);
  auto const counted = calls_of([&] {
    write(device.default_group(), tensor);
    write(device.default_group(), tensor);
  });
  EXPECT_NE(complaint(counted, Budget().launches(1)).find("cudaLaunchKernel"), std::string::npos);
}

TEST_F(BudgetTest, sees_an_event_for_every_use) {
  Device const device;
  auto const stream = device.default_group().compute();
  repeat(kWarmUp, [&] { static_cast<void>(stream.record()); });
  std::vector<ms::Event<ms::Cuda>> kept;
  auto const counted = calls_of([&] { repeat(kWarmUp, [&] { kept.push_back(stream.record()); }); });
  EXPECT_NE(complaint(counted, Budget().exactly("cudaEventRecord", kWarmUp))
                .find("cudaEventCreateWithFlags"),
            std::string::npos);
}

TEST_F(BudgetTest, sees_memory_taken_from_the_driver_and_a_host_that_waits) {
  Device const device;
  Floats const small(device, {64});
  auto const table = complaint(calls_of([&] {
                                 Floats const large(device, {32 << 20});
                                 device.default_group().synchronize();
                               }),
                               Budget());
  EXPECT_NE(table.find("cuMemCreate"), std::string::npos) << table;
  EXPECT_NE(table.find("cudaEventSynchronize"), std::string::npos) << table;
}

/// A repeated read by one group needs no wait, but with `reduce_waits` off each read waits.
/// (Alternate writes by two groups would not show the difference, because each of them needs a wait
/// in any case.)
TEST_F(BudgetTest, sees_waits_that_are_not_elided) {
  Device const device({.reduce_waits = false});
  Pool const pool(device, {.groups = 2});
  Floats const tensor(device, {64});
  write(pool[0], tensor);
  repeat(kWarmUp, [&] { read(pool[1], tensor); });
  auto const counted = calls_of([&] { repeat(3, [&] { read(pool[1], tensor); }); });
  EXPECT_FALSE(within(counted, Budget().launches(3)));
  EXPECT_TRUE(within(counted, Budget().launches(3).exactly("cudaStreamWaitEvent", 3)));
}

}  // namespace
}  // namespace fake_cuda
