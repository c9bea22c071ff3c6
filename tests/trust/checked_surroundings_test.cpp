// SPDX-License-Identifier: Apache-2.0
// Tests of findings that are not about the order of work: calls that synchronise, failures, and
// leaks.
#include "stream/stream_context.hpp"
#include "trust/checked_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/detail/sync_watch.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::testing {
namespace {

template <class Inner>
class CheckedSurroundings : public CheckedProgram<Inner> {};
TYPED_TEST_SUITE(CheckedSurroundings, CheckedRuntimes, CheckedRuntimeNames);

TYPED_TEST(CheckedSurroundings, call_that_synchronises_inside_a_scope_only) {
  auto const synchronise = [](std::string_view call) {
    if (auto* const listener = msstream::detail::sync_listener()) {
      listener->implicit_sync(call);
    }
  };
  synchronise("cudaMalloc");
  this->expect_silence();
  StreamScope const scope(this->group(0));
  {
    msstream::detail::OwnCall const own;
    synchronise("cudaMalloc");
  }
  this->expect_silence();
  NameScope const name("layer");
  synchronise("cudaFree");
  auto const report = this->only(CheckKind::implicit_sync);
  EXPECT_NE(report.message.find("cudaFree"), std::string::npos);
  EXPECT_NE(report.message.find("layer"), std::string::npos);
}

TYPED_TEST(CheckedSurroundings, call_that_synchronises_inside_an_operation) {
  auto const tensor = this->written_tensor();
  issue("work", writes(tensor), [](auto) {
    msstream::detail::sync_listener()->implicit_sync("cudaMalloc");
  });
  this->only(CheckKind::implicit_sync);
}

TYPED_TEST(CheckedSurroundings, leaks_are_told_by_what_they_are) {
  auto& runtime = this->runtime();
  auto const kept_runtime = this->device().context()->runtime;
  auto const stream = runtime.create_stream(StreamPriority::normal);
  auto const event = runtime.create_event(EventTiming::untimed);
  auto* const device_memory = runtime.allocate_device(512);
  auto* const pinned = runtime.allocate_pinned(256);
  this->end_program();
  std::vector<std::string> messages;
  for (auto const& report : this->checker().reports()) {
    EXPECT_EQ(report.kind, CheckKind::leak);
    messages.push_back(report.message);
  }
  EXPECT_THAT(messages,
              ::testing::UnorderedElementsAre("1 streams were never destroyed",
                                              "1 events were never destroyed",
                                              "512 bytes of device memory were never freed",
                                              "256 bytes of pinned memory were never freed"));
  runtime.free_pinned(pinned, 256);
  runtime.free_device(device_memory, 512);
  runtime.destroy_event(event);
  runtime.destroy_stream(stream);
  this->checker().clear();
  this->checker().report_leaks();
  this->expect_silence();
}

TYPED_TEST(CheckedSurroundings, tensor_that_is_still_held_tells_where_it_was_taken) {
  std::optional<Tensor<float, typename TestFixture::R>> tensor;
  std::optional<PinnedArray<float, typename TestFixture::R>> staged;
  {
    NameScope const model("model");
    NameScope const layer("layer \"3\"");
    tensor.emplace(this->device(), Shape{64});
    staged.emplace(this->device(), 64);
  }
  this->checker().report_leaks();
  std::string all;
  for (auto const& report : this->checker().reports()) {
    all += report.message + "\n";
  }
  EXPECT_NE(all.find("bytes of device memory are still in use, taken in model/layer \"3\""),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("bytes of pinned memory are still in use, taken in model/layer \"3\""),
            std::string::npos)
      << all;
  tensor.reset();
  staged.reset();
  this->checker().clear();
  this->end_program();
  this->expect_silence();
}

/// A device that is never destroyed is reported as a leak when the program ends.
TEST(CheckedLeaks, are_told_at_exit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const program = [] {
    auto const* const device =
        new Device<Checked<Host>>(checked_device<Host>({.mode = CheckMode::log}));
    NameScope const scope("forgotten");
    new Tensor<float, Checked<Host>>(*device, {64});
    std::exit(0);
  };
  EXPECT_EXIT(program(),
              ::testing::ExitedWithCode(0),
              "leak: .* bytes of device memory are still in use, taken in forgotten");
}

}  // namespace
}  // namespace msstream::testing
