// SPDX-License-Identifier: Apache-2.0
// Tests that RawAllocator asks the runtime which stream a handle stands for, whether the stream may
// be destroyed, and whether it is captured.
#include "memory/raw_allocator/raw_allocator_fixture.hpp"

#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

/// The identities that a test gives to streams, and the number of recorded events.
struct StreamFacts {
  std::map<HostQueue*, std::optional<ForeignStream>> of;
  int records = 0;
};

/// A host runtime that reports the identities of streams that the test has set.
class HostAsTold : public Host {
 public:
  using Options = StreamFacts*;
  static constexpr std::string_view name = "host as told";

  explicit HostAsTold(Options facts) : facts_(facts) {}

  [[nodiscard]] std::optional<ForeignStream> identify(native_stream stream) const {
    auto const told = facts_->of.find(stream);
    return told != facts_->of.end() ? told->second : Host::identify(stream);
  }
  void record(native_event event, native_stream stream) {
    ++facts_->records;
    Host::record(event, stream);
  }

 private:
  Options facts_;
};

class RawAllocationAsTold : public ::testing::Test {
 protected:
  static constexpr std::nullopt_t kCaptured = std::nullopt;

  StreamFacts facts;
  RawProgram<HostAsTold> program{1, &facts};
  HostQueue* const a = program.stream();
  HostQueue* const b = program.stream();
};

TEST_F(RawAllocationAsTold, a_handle_that_is_used_again_is_another_stream) {
  auto* const first = program.allocate(a);
  program.hold(a);
  program.memory.deallocate(first, a);
  facts.of[a] = ForeignStream{1'000'000, false};
  EXPECT_EQ(program.allocate(a), first);
  EXPECT_EQ(program.waits(), 1U);
}

TEST_F(RawAllocationAsTold, giving_back_records_an_event_only_on_streams_that_may_go) {
  facts.of[a] = ForeignStream{1'000'000, true};
  program.memory.deallocate(program.allocate(a), a);
  EXPECT_EQ(facts.records, 0);
  program.hold(a);
  auto* const memory = program.allocate(b);
  EXPECT_EQ(facts.records, 1);  // on a, so that b can wait for it
  EXPECT_EQ(program.waits(), 1U);
  program.memory.deallocate(memory, b);
  EXPECT_EQ(facts.records, 2);
}

TEST_F(RawAllocationAsTold, refuses_a_captured_stream) {
  facts.of[a] = kCaptured;
  try {
    static_cast<void>(program.allocate(a));
    FAIL() << "no exception";
  } catch (std::logic_error const& error) {
    EXPECT_THAT(error.what(), HasSubstr("2097152 bytes asked on a stream that is captured"));
  }
}

TEST_F(RawAllocationAsTold, what_comes_back_during_a_capture_waits_for_its_end) {
  auto* const memory = program.allocate(a);
  facts.of[a] = kCaptured;
  program.memory.deallocate(memory, a);
  EXPECT_EQ(facts.records, 0);
  EXPECT_THROW(static_cast<void>(program.allocate(b)), OutOfMemory);
  facts.of.erase(a);
  EXPECT_EQ(program.allocate(a), memory);
}

TEST_F(RawAllocationAsTold, what_another_stream_gave_back_during_its_capture_stays) {
  auto* const memory = program.allocate(a);
  facts.of[b] = kCaptured;
  program.memory.deallocate(memory, b);
  EXPECT_THROW(static_cast<void>(program.allocate(a)), OutOfMemory);
}

TEST_F(RawAllocationAsTold, what_a_captured_stream_uses_too_waits_for_the_end_of_the_capture) {
  auto* const memory = program.allocate(a);
  program.memory.record_use(memory, b);
  facts.of[b] = kCaptured;
  program.memory.deallocate(memory, a);
  EXPECT_THROW(static_cast<void>(program.allocate(a)), OutOfMemory);
  facts.of.erase(b);
  EXPECT_EQ(program.allocate(a), memory);
}

}  // namespace
}  // namespace msstream::testing
