// SPDX-License-Identifier: Apache-2.0
// Tests of exceptions in host functions. An exception that passed through the driver would end the
// process.
#include "base/unheard_failure.hpp"
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <optional>
#include <stdexcept>

namespace fake_cuda {
namespace {

class HostCalls : public FakeCudaTest {
 protected:
  void TearDown() override {
    device_.reset();
    FakeCudaTest::TearDown();
  }
  [[nodiscard]] ms::Cuda& runtime() { return device_->runtime(); }
  [[nodiscard]] auto stream() { return device_->default_group().compute(); }
  void call_what_throws(char const* text = "spoilt") {
    runtime().call_host(stream().native(), [text] { throw std::range_error(text); });
  }

  std::optional<Device> device_{std::in_place};
};

TEST_F(HostCalls, that_throw_tell_the_next_wait_for_the_stream_once) {
  call_what_throws();
  call_what_throws("one more");
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(stream().synchronize(), std::range_error);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("one more"))
      << "the first one is told, the others are written to the log";
  EXPECT_NO_THROW(stream().synchronize());
}

TEST_F(HostCalls, that_throw_tell_a_wait_for_an_event_and_for_a_tensor) {
  call_what_throws();
  auto const event = runtime().create_event(ms::EventTiming::untimed);
  runtime().record(event, stream().native());
  EXPECT_THROW(runtime().synchronize(event), std::range_error);
  EXPECT_TRUE(runtime().query(event));
  runtime().destroy_event(event);

  auto const tensor = ms::zeros<float>(*device_, {4});
  call_what_throws();
  EXPECT_THROW(static_cast<void>(ms::to_host(tensor)), std::range_error);
  EXPECT_NO_THROW(static_cast<void>(ms::to_host(tensor)));
}

TEST_F(HostCalls, that_throw_are_not_told_to_who_drops_it) {
  call_what_throws();
  {
    ms::detail::UnheardFailure const dropped;
    EXPECT_NO_THROW(stream().synchronize());
  }
  EXPECT_THROW(stream().synchronize(), std::range_error);
}

TEST_F(HostCalls, that_throw_are_written_to_the_log_when_nobody_waits) {
  call_what_throws();
  ::testing::internal::CaptureStderr();
  device_.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("spoilt"));
}

}  // namespace
}  // namespace fake_cuda
