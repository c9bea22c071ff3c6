// SPDX-License-Identifier: Apache-2.0
// A program whose ranges, categories and counters a tool for NVTX sees. The script
// tests/trace/nvtx/wiring_test.py runs it with such a tool and checks what the tool was told;
// without a tool, the program checks nothing.
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/trace/name_scope.hpp>

namespace fake_cuda {
namespace {

class ToolTest : public FakeCudaTest {};

TEST_F(ToolTest, ranges_counters_and_categories) {
  Device const device;
  Pool const pool(
      device, {.groups = 2, .launch_threads = ms::LaunchThreads::shared, .launch_thread_count = 2});
  Floats const tensor(device, {64});
  {
    ms::NameScope const scope("user_tower");
    write(pool[0], tensor);
  }
  auto const last = write(pool[1], tensor);  // waits for the first group
  await_launch(device, last);
  ms::issue("alone", ms::writes(tensor), one_kernel(tensor));  // in the default group
  Pool const second(device, {.groups = 1});
  write(second[0], tensor);  // waits for the default group
  device.default_group().synchronize();
}

}  // namespace
}  // namespace fake_cuda
