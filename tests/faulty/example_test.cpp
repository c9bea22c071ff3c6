// SPDX-License-Identifier: Apache-2.0
// The program of docs/testing.md that fails calls of a runtime.
#include <msstream/msstream.hpp>
#include <msstream/runtime/fault_plan.hpp>
#include <msstream/runtime/faulty.hpp>

#include <gtest/gtest.h>

#include <iostream>
#include <memory>

namespace ms = msstream;

namespace msstream::testing {
namespace {

TEST(FaultyExample, fails_the_calls_that_a_plan_names) {
  using R = ms::Faulty<ms::Host>;
  auto const my_step = [](ms::Device<R> const& on) {
    return ms::to_host(ms::ops::scale(ms::zeros<float>(on, {4}), 2.0F));
  };

  auto const plan = std::make_shared<ms::FaultPlan>();
  ms::Device<R> const device({.runtime = {.plan = plan}});
  plan->fail(3, ms::Fault::launch_failure);  // the third call from now on
  EXPECT_THROW(my_step(device), ms::CudaError);
  std::cerr << to_string(*plan->failed()) << '\n';  // for example, call 3: create_stream

  plan->fail(ms::RuntimeCall::launch, 1, ms::Fault::launch_failure);  // or one kind of call
  EXPECT_THROW(my_step(device), ms::CudaError);
}

}  // namespace
}  // namespace msstream::testing
