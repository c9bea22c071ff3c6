// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/call_chains.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace msstream::overlap {
namespace {

TEST(CallChains, functions_of_the_program_are_told_from_those_of_libraries_and_of_cuda) {
  struct Case {
    CodeOwner owner;
    std::string_view symbol;
    std::string_view module;
  };
  for (auto const& [owner, symbol, module] :
       {Case{CodeOwner::cuda, "cuLaunchKernel", "/lib/libcuda.so.1"},
        Case{CodeOwner::cuda, "cudaMalloc", "train"},  // linked into the program
        Case{CodeOwner::cuda, "__device_stub__Z9my_kernelPfi(float*, int)", "train"},
        Case{CodeOwner::cuda, "start_thread", "/lib/x86_64-linux-gnu/libc.so.6"},
        Case{CodeOwner::cuda, "do_syscall_64", "[kernel.kallsyms]"},
        Case{CodeOwner::library, "at::add(at::Tensor)", "/opt/torch/lib/libtorch_cpu.so"},
        Case{CodeOwner::library, "_PyEval_EvalFrameDefault", "/usr/bin/python3.11"},
        Case{CodeOwner::library, "msstream::Stream::wait(msstream::Event)", "train"},
        Case{CodeOwner::library, "std::_Function_handler<void (), msstream::Task>", "train"},
        Case{CodeOwner::library, "ms_add", "/venv/lib/python3.12/site-packages/x/_C.so"},
        Case{CodeOwner::program, "void step(msstream::Device<msstream::Cuda> const&)", "train"},
        Case{CodeOwner::program, "cuda_forward()", "/home/user/libcuda_ops.so"},
        Case{CodeOwner::program, "main", "/home/user/train"},
        Case{CodeOwner::program, "Trainer::step()", "/home/user/libcurves.so"},
        Case{CodeOwner::program, "curve(float)", ""}}) {
    EXPECT_EQ(owner_of(symbol, module), owner) << symbol;
  }
}

TEST(CallChains, the_innermost_function_of_the_program_made_the_call) {
  CallChains chains;
  chains.add(7, 4, "main", "/bin/train");
  chains.add(7, 0, "cudaLaunchKernel", "/lib/libcudart.so.13");
  chains.add(7, 3, "step()", "/bin/train");
  chains.add(7, 1, "at::add()", "/lib/libtorch_cpu.so");
  chains.add(7, 2, "", "/bin/train");
  EXPECT_EQ(chains.function_of(7), "step() in train");
  EXPECT_EQ(chains.function_of(8), "");
}

TEST(CallChains, without_a_function_of_the_program_one_of_a_library_did) {
  CallChains chains;
  chains.add(1, 2, "at::sum()", "/lib/libtorch_cpu.so");
  chains.add(1, 1, "at::add()", "/lib/libtorch_cpu.so");
  chains.add(1, 0, "cudaLaunchKernel", "/lib/libcudart.so.13");
  EXPECT_EQ(chains.function_of(1), "at::add() in libtorch_cpu.so");
  chains.add(2, 0, "cudaLaunchKernel", "/lib/libcudart.so.13");
  EXPECT_EQ(chains.function_of(2), "");
}

}  // namespace
}  // namespace msstream::overlap
