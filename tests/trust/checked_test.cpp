// SPDX-License-Identifier: Apache-2.0
// Tests of each kind of finding other than races. Each mistake is tested together with the correct
// program.
#include "trust/checked_fixture.hpp"

#include <msstream/stream/stream_scope.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace msstream::testing {
namespace {

template <class Inner>
class CheckedKinds : public CheckedProgram<Inner> {};
TYPED_TEST_SUITE(CheckedKinds, CheckedRuntimes, CheckedRuntimeNames);

TYPED_TEST(CheckedKinds, a_program_that_is_right_is_silent_to_its_end) {
  {
    auto const tensor = this->written_tensor();
    {
      StreamScope const scope(this->group(0));
      issue("double", writes(tensor), kNoWork);
    }
    StreamScope const scope(this->group(1));
    EXPECT_EQ(to_host(tensor).size(), 64U);
  }
  this->end_program();
  this->expect_silence();
}

TYPED_TEST(CheckedKinds, use_of_memory_whose_tensor_is_gone) {
  std::optional<Tensor<float, typename TestFixture::R>> tensor = this->written_tensor();
  auto const kept = raw(this->device(), *tensor);
  issue("in time", reads(kept), kNoWork);
  this->expect_silence();
  tensor.reset();
  StreamScope const scope(this->group(0));
  auto const line = std::source_location::current().line() + 1;
  issue("too late", reads(kept), kNoWork);
  auto const report = this->only(CheckKind::use_after_free);
  EXPECT_FALSE(report.first.has_value());
  expect_access(report.second, "too late", "group 0 compute", AccessMode::read, line);
  EXPECT_NE(report.second->scope_opened_at.line(), 0U);
  expect_range(report.second, kept.begin, kept.bytes);
  EXPECT_NE(report.message.find("was given back"), std::string::npos);
}

TYPED_TEST(CheckedKinds, use_by_a_runtime_call_of_memory_whose_tensor_is_gone) {
  std::optional<Tensor<float, typename TestFixture::R>> tensor = this->written_tensor();
  auto* const kept = tensor->data();
  this->runtime().fill(kept, 1, this->kBytes, this->group(0).compute().native());
  this->group(0).compute().synchronize();
  this->expect_silence();
  tensor.reset();
  this->runtime().fill(kept, 1, this->kBytes, this->group(0).compute().native());
  auto const report = this->only(CheckKind::use_after_free);
  EXPECT_EQ(report.second->operation, "fill");
  this->group(0).compute().synchronize();
}

/// A tensor may be destroyed as soon as its operation is issued, before a launch thread fills it.
TEST(CheckedKindsOnLaunchThreads, copies_are_no_use_after_free_when_the_tensor_goes_in_between) {
  using R = Checked<Host>;
  std::atomic<bool> may_go{false};
  auto const device = checked_device<Host>({.mode = CheckMode::count});
  StreamPool<R> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  Tensor<float, R> const first(device, {16});
  StreamScope const scope(pool[0]);
  issue("held", writes(first), [&](auto) { may_go.wait(false); });
  {
    Tensor<float, R> const tensor(device, {16});
    fill_bytes(tensor, 0);
  }
  may_go = true;
  may_go.notify_all();
  pool.synchronize();
  auto const& checker = *device.runtime().checker();
  EXPECT_EQ(checker.count(), 0U) << checker.json();
}

TYPED_TEST(CheckedKinds, freeing_memory_that_is_in_use) {
  auto& runtime = this->runtime();
  auto* const memory = runtime.allocate_device(256);
  auto const line = std::source_location::current().line() + 3;
  {
    StreamScope const scope(this->group(0));
    issue("user", writes(raw_memory(this->device(), static_cast<char*>(memory), 100)), kNoWork);
  }
  runtime.free_device(memory, 256);
  auto const report = this->only(CheckKind::early_reuse);
  expect_access(report.first, "user", "group 0 compute", AccessMode::write, line);
  expect_range(report.first, memory, 100);
  EXPECT_FALSE(report.second.has_value());
  EXPECT_EQ(report.missing, "the host must wait for 'user' before that");
}

TYPED_TEST(CheckedKinds, freeing_memory_after_the_host_has_waited) {
  auto& runtime = this->runtime();
  auto* const memory = runtime.allocate_device(256);
  {
    StreamScope const scope(this->group(0));
    issue("user", writes(raw_memory(this->device(), static_cast<char*>(memory), 100)), kNoWork);
  }
  this->order(0, 1);
  this->group(1).compute().synchronize();  // the stream follows group 0 as well
  runtime.free_device(memory, 256);
  this->expect_silence();
}

/// The accesses to freed memory are forgotten, so that a later allocation at the same address has
/// no earlier accesses.
TYPED_TEST(CheckedKinds, freed_memory_is_forgotten) {
  auto& runtime = this->runtime();
  auto* const memory = runtime.allocate_device(256);
  auto const named = raw_memory(this->device(), static_cast<char*>(memory), 256);
  {
    StreamScope const scope(this->group(0));
    issue("user", writes(named), kNoWork);
  }
  runtime.free_device(memory, 256);
  this->checker().clear();
  {
    StreamScope const scope(this->group(1));
    issue("next user", writes(named), kNoWork);
  }
  this->expect_silence();
}

TYPED_TEST(CheckedKinds, read_of_what_nothing_has_written) {
  Tensor<float, typename TestFixture::R> const tensor(this->device(), {this->kCount});
  StreamScope const scope(this->group(0));
  auto const line = std::source_location::current().line() + 1;
  issue("reader", reads(tensor), kNoWork);
  auto const report = this->only(CheckKind::unwritten_read);
  expect_access(report.second, "reader", "group 0 compute", AccessMode::read, line);
  expect_range(report.second, tensor.data(), this->kBytes);
  EXPECT_EQ(report.missing, "an operation that writes it, issued before 'reader'");
  issue("reader again", reads(tensor), kNoWork);
  this->only(CheckKind::unwritten_read);  // reported once
}

TYPED_TEST(CheckedKinds, read_of_what_the_last_owner_of_the_memory_has_written) {
  void const* before = nullptr;
  {
    auto const tensor = this->written_tensor();
    before = tensor.data();
  }
  Tensor<float, typename TestFixture::R> const tensor(this->device(), {this->kCount});
  ASSERT_EQ(tensor.data(), before) << "the program tests nothing";
  issue("reader", reads(tensor), kNoWork);
  this->only(CheckKind::unwritten_read);
}

TYPED_TEST(CheckedKinds, read_by_a_runtime_call_of_what_nothing_has_written) {
  Tensor<float, typename TestFixture::R> const from(this->device(), {this->kCount});
  auto const to = this->written_tensor();
  auto const native = this->group(0).compute().native();
  this->runtime().copy(to.data(), from.data(), this->kBytes, CopyKind::d2d, native);
  EXPECT_EQ(this->only(CheckKind::unwritten_read).second->operation, "copy d2d");
  this->group(0).compute().synchronize();
}

TYPED_TEST(CheckedKinds, write_of_what_is_named_as_read_only) {
  auto const tensor = this->written_tensor();
  auto* const runtime = &this->runtime();
  auto const native = this->group(0).compute().native();
  StreamScope const scope(this->group(0));
  auto const fill = [&](auto) { runtime->fill(tensor.data(), 1, this->kBytes, native); };
  issue("right", writes(tensor), fill);
  this->expect_silence();
  auto const line = std::source_location::current().line() + 1;
  issue("wrong", reads(tensor), fill);
  auto const report = this->only(CheckKind::undeclared_use);
  expect_access(report.second, "wrong", "group 0 compute", AccessMode::write, line);
  expect_range(report.second, tensor.data(), this->kBytes);
  EXPECT_EQ(report.missing, "it must be among the writes() of the operation");
  this->group(0).compute().synchronize();
}

TYPED_TEST(CheckedKinds, use_of_a_tensor_that_is_not_named) {
  auto const named = this->written_tensor();
  auto const other = this->written_tensor();
  auto* const runtime = &this->runtime();
  auto const native = this->group(0).compute().native();
  StreamScope const scope(this->group(0));
  auto const copy_other = [&](auto) {
    runtime->copy(named.data(), other.data(), this->kBytes, CopyKind::d2d, native);
  };
  issue("right", reads(other), writes(named), copy_other);
  this->expect_silence();
  issue("wrong", writes(named), copy_other);
  EXPECT_EQ(this->only(CheckKind::undeclared_use).second->mode, AccessMode::read);
  this->group(0).compute().synchronize();
}

TYPED_TEST(CheckedKinds, read_of_a_half_that_nothing_has_written) {
  Tensor<float, typename TestFixture::R> const tensor(this->device(), {this->kCount});
  issue("front", writes(tensor.rows(0, 32)), kNoWork);
  issue("back", reads(tensor.rows(32, 64)), kNoWork);
  auto const report = this->only(CheckKind::unwritten_read);
  expect_range(report.second, tensor.data() + 32, this->kBytes / 2);
}

/// Reading memory that is partly written is not reported: an operation declares its whole capacity
/// and may read only the elements that exist.
TYPED_TEST(CheckedKinds, read_of_a_capacity_that_is_written_in_part_is_silent) {
  Tensor<float, typename TestFixture::R> const tensor(this->device(), {this->kCount});
  issue("count of them", writes(tensor.rows(0, 3)), kNoWork);
  issue("as many as there are", reads(tensor), kNoWork);
  issue("none of it", reads(tensor.rows(40, 40)), kNoWork);
  this->expect_silence();
}

TYPED_TEST(CheckedKinds, work_under_a_holder_may_have_written) {
  Tensor<float, typename TestFixture::R> const tensor(this->device(), {this->kCount});
  Stream<typename TestFixture::R> stream(this->device());
  {
    TensorHolder holder(stream);
    holder.hold(tensor);
    this->runtime().fill(tensor.data(), 1, this->kBytes, stream.native());
  }
  issue("reader", reads(tensor), kNoWork);
  this->expect_silence();
  stream.synchronize();
}

TYPED_TEST(CheckedKinds, wait_for_an_event_that_was_never_recorded) {
  auto& runtime = this->runtime();
  auto const native = this->group(0).compute().native();
  auto const event = runtime.create_event(EventTiming::untimed);
  runtime.wait(native, event);
  auto const report = this->only(CheckKind::unrecorded_wait);
  EXPECT_NE(report.message.find("orders nothing"), std::string::npos);
  EXPECT_FALSE(report.missing.empty());
  this->checker().clear();
  runtime.record(event, native);
  runtime.wait(native, event);
  this->expect_silence();
  runtime.destroy_event(event);
}

/// A Host runtime that counts the calls that a Checked runtime passes on to it.
class CountingHost : public Host {
 public:
  using Host::Host;
  static constexpr std::string_view name = "counting host";
  void wait(native_stream stream, native_event event) {
    ++calls;
    Host::wait(stream, event);
  }
  void record(native_event event, native_stream stream) {
    ++calls;
    Host::record(event, stream);
  }
  bool query(native_event event) {
    ++calls;
    return Host::query(event);
  }
  void synchronize(native_event event) {
    ++calls;
    Host::synchronize(event);
  }
  double elapsed_ns(native_event begin, native_event end) {
    ++calls;
    return Host::elapsed_ns(begin, end);
  }
  int calls = 0;
};

/// The handle of a destroyed event may be an address in freed memory, so Checked must not pass it
/// on to the runtime.
TEST(CheckedEvents, are_not_used_when_they_are_gone) {
  Checked<CountingHost> runtime({.check = {.mode = CheckMode::count, .report_path = {}}});
  auto const& checker = *runtime.checker();
  auto const stream = runtime.create_stream(StreamPriority::normal);
  auto const event = runtime.create_event(EventTiming::timed);
  runtime.record(event, stream);
  runtime.wait(stream, event);
  runtime.synchronize(event);
  EXPECT_TRUE(runtime.query(event));
  EXPECT_EQ(runtime.elapsed_ns(event, event), 0.0);
  EXPECT_EQ(checker.count(), 0U) << checker.json();
  EXPECT_EQ(runtime.inner().calls, 5);

  runtime.destroy_event(event);
  runtime.wait(stream, event);
  runtime.record(event, stream);
  runtime.synchronize(event);
  EXPECT_TRUE(runtime.query(event));
  EXPECT_EQ(runtime.elapsed_ns(event, event), 0.0);
  EXPECT_EQ(runtime.inner().calls, 5);
  EXPECT_EQ(checker.count(CheckKind::dead_event), 5U);
  EXPECT_EQ(checker.reports().size(), 5U) << checker.json();
  runtime.destroy_stream(stream);
}

TYPED_TEST(CheckedKinds, host_use_of_pinned_memory_before_its_copies_are_known_to_be_over) {
  auto const tensor = this->written_tensor();
  PinnedArray<float, typename TestFixture::R> const staged(this->device(), 64);
  for (auto const mode : {AccessMode::read, AccessMode::write}) {
    this->checker().clear();
    auto const use = [&] {
      mode == AccessMode::read ? staged.host_reads() : static_cast<void>(staged.elements());
    };
    use();
    this->expect_silence();  // silent, because no copy is in flight
    StreamScope const scope(this->group(0));
    auto const line = std::source_location::current().line() + 1;
    copy(staged, tensor);
    use();
    auto const report = this->only(CheckKind::host_race);
    expect_access(report.first, "copy_d2h", "group 0 d2h", AccessMode::write, line);
    expect_range(report.first, staged.data(), this->kBytes);
    EXPECT_EQ(report.missing, "the host must wait for 'copy_d2h', as by PinnedArray::wait()");
    this->checker().clear();
    staged.wait();
    use();
    this->expect_silence();
  }
}

TYPED_TEST(CheckedKinds, host_may_read_what_the_device_reads) {
  auto const tensor = this->written_tensor();
  PinnedArray<float, typename TestFixture::R> const staged(this->device(), 64);
  std::ranges::fill(staged.elements(), 1.0F);
  copy(tensor, staged);
  staged.host_reads();
  this->expect_silence();
  staged.host_writes();
  EXPECT_EQ(this->only(CheckKind::host_race).first->mode, AccessMode::read);
  this->checker().clear();
  staged.wait();
  staged.host_writes();
  this->expect_silence();
}

/// After one host thread has waited for work, all threads may rely on its completion, also if the
/// wait was for another stream that follows the work.
TYPED_TEST(CheckedKinds, host_knows_what_precedes_what_it_has_waited_for) {
  auto const tensor = this->written_tensor();
  PinnedArray<float, typename TestFixture::R> const staged(this->device(), 64);
  {
    StreamScope const scope(this->group(0));
    copy(staged, tensor);
  }
  this->group(1).compute().wait(this->group(0).stream(StreamKind::d2h).record());
  this->group(1).compute().synchronize();
  staged.host_reads();
  this->expect_silence();
}

TYPED_TEST(CheckedKinds, pinned_array_that_is_dropped_is_given_out_when_its_copies_are_over) {
  auto const tensor = this->written_tensor();
  for (int i = 0; i < 8; ++i) {
    StreamScope const scope(this->group(i % 2));
    PinnedArray<float, typename TestFixture::R> const staged(this->device(), 64);
    std::ranges::fill(staged.elements(), 1.0F);
    copy(tensor, staged);
  }
  this->expect_silence();
}

TYPED_TEST(CheckedKinds, pinned_array_given_out_while_a_copy_may_run) {
  auto const tensor = this->written_tensor();
  std::optional<PinnedArray<float, typename TestFixture::R>> staged(
      std::in_place, this->device(), 64);
  // The allocator does not know about the copy, because the copy bypasses the tracker.
  this->runtime().copy(staged->data(),
                       tensor.data(),
                       this->kBytes,
                       CopyKind::d2h,
                       this->group(0).compute().native());
  staged.reset();
  PinnedArray<float, typename TestFixture::R> const again(this->device(), 64);
  auto const report = this->only(CheckKind::early_reuse);
  EXPECT_EQ(report.first->operation, "copy d2h");
  EXPECT_NE(report.message.find("pinned memory is given out"), std::string::npos);
  this->group(0).compute().synchronize();
}

TYPED_TEST(CheckedKinds, copy_onto_memory_that_it_still_reads) {
  auto const tensor = this->written_tensor();
  auto* const runtime = &this->runtime();
  auto const native = this->group(0).compute().native();
  auto const half = this->kBytes / 2;
  auto* const middle = tensor.data() + half / sizeof(float);
  runtime->copy(middle, tensor.data(), half, CopyKind::d2d, native);
  runtime->copy(tensor.data(), tensor.data(), half, CopyKind::d2d, native);
  this->group(0).compute().synchronize();
  ASSERT_TRUE(this->checker().reports().empty());
  runtime->copy(tensor.data() + 1, tensor.data(), half, CopyKind::d2d, native);
  auto const report = this->only(CheckKind::copy_overlap);
  EXPECT_NE(report.message.find("copy d2d"), std::string::npos);
  EXPECT_NE(report.message.find(" by 4 bytes up"), std::string::npos);
  this->group(0).compute().synchronize();
}

TYPED_TEST(CheckedKinds, copy_of_memory_that_is_not_pinned) {
  auto const tensor = this->written_tensor();
  std::array<float, 64> pageable{};
  auto* const runtime = &this->runtime();
  auto const native = this->group(0).compute().native();
  runtime->copy(tensor.data(), pageable.data(), this->kBytes, CopyKind::h2d, native);
  auto const report = this->only(CheckKind::pageable_copy);
  EXPECT_NE(report.message.find("copy h2d"), std::string::npos);
  EXPECT_EQ(report.missing, "a PinnedArray in its place");
  this->checker().clear();
  {
    StreamScope const scope(this->group(0));
    auto const line = std::source_location::current().line() + 1;
    issue("download", reads(tensor), [&](auto) {
      runtime->copy(pageable.data(), tensor.data(), this->kBytes, CopyKind::d2h, native);
    });
    auto const inside = this->only(CheckKind::pageable_copy);
    ASSERT_TRUE(inside.second.has_value());
    EXPECT_EQ(inside.second->operation, "download");
    EXPECT_EQ(inside.second->issued_at.line(), line);
  }
  this->group(0).compute().synchronize();
}

TYPED_TEST(CheckedKinds, copies_of_pinned_memory_of_nothing_and_on_the_device_are_silent) {
  auto const tensor = this->written_tensor();
  auto const other = this->written_tensor();
  auto& runtime = this->runtime();
  auto const native = this->group(0).compute().native();
  auto* const pinned = runtime.allocate_pinned(this->kBytes);
  std::memset(pinned, 0, this->kBytes);
  runtime.copy(tensor.data(), pinned, this->kBytes, CopyKind::h2d, native);
  runtime.copy(other.data(), tensor.data(), this->kBytes, CopyKind::d2d, native);
  runtime.copy(pinned, other.data(), this->kBytes, CopyKind::d2h, native);
  std::array<float, 1> nothing{};
  runtime.copy(tensor.data(), nothing.data(), 0, CopyKind::h2d, native);
  runtime.synchronize_stream(native);
  runtime.free_pinned(pinned, this->kBytes);
  this->expect_silence();
}

}  // namespace
}  // namespace msstream::testing
