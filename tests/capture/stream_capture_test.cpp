// SPDX-License-Identifier: Apache-2.0
#include "capture/stream_capture.hpp"

#include "stream/stream_fixture.hpp"

#include <msstream/runtime/faulty.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

/// A fixture with two stream groups, a and b. Work issued on the twin of a group, which twin_of()
/// of a capture returns, is captured instead of run.
template <class R>
class Captured : public StreamTest<R> {
 protected:
  using Group = detail::StreamGroup;
  using Graph = typename R::native_graph;

  void SetUp() override {
    StreamTest<R>::SetUp();
    if (this->IsSkipped()) {
      return;
    }
    a = make_group(0);
    b = make_group(1);
    x = this->make_cell();
    y = this->make_cell();
  }
  void TearDown() override {
    for (auto const graph : graphs_) {
      this->runtime().destroy_graph(graph);
    }
  }
  std::shared_ptr<Group> make_group(int index, detail::StreamGroupOptions const& options = {}) {
    return std::make_shared<Group>(this->context, index, options);
  }
  static order::Position copy(Group& group,
                              typename StreamTest<R>::TrackedCell& to,
                              typename StreamTest<R>::TrackedCell& from) {
    detail::AccessSet accesses;
    accesses.add(from.record, AccessMode::read);
    accesses.add(to.record, AccessMode::write);
    return StreamTest<R>::submit(group, "copy", accesses, [&](auto) {
      group.context()->runtime->copy(to.cell.device(),
                                     from.cell.device(),
                                     Cell<R>::kBytes,
                                     CopyKind::d2d,
                                     group.compute().native());
    });
  }
  Graph end(detail::StreamCapture& capture) {
    return graphs_.emplace_back(static_cast<Graph>(capture.end()));
  }
  void launch(Graph graph, Group& group) {
    this->run(group,
              [&](auto) { this->runtime().launch_graph(graph, this->native(group.compute())); });
  }
  int value(Group& group, typename StreamTest<R>::TrackedCell& cell) {
    this->read(group, cell);
    group.synchronize();
    return cell.cell.seen();
  }

  detail::StreamCapture::Libraries libraries;
  std::shared_ptr<Group> a;
  std::shared_ptr<Group> b;
  std::unique_ptr<typename StreamTest<R>::TrackedCell> x;
  std::unique_ptr<typename StreamTest<R>::TrackedCell> y;

 private:
  std::vector<Graph> graphs_;
};
TYPED_TEST_SUITE(Captured, PlainRuntimes, RuntimeNames);

TYPED_TEST(Captured, a_twin_is_like_its_group_and_is_its_own) {
  auto const merged = this->make_group(5, {.merge_streams = true});
  detail::StreamCapture capture(this->context, this->libraries);
  auto& twin = capture.twin_of(*merged);
  EXPECT_NE(&twin, merged.get());
  EXPECT_TRUE(twin.captured());
  EXPECT_FALSE(merged->captured());
  EXPECT_EQ(twin.index(), 5);
  EXPECT_EQ(twin.name(), merged->name());
  EXPECT_TRUE(twin.merged());
  EXPECT_EQ(&capture.twin_of(*merged), &twin);
  EXPECT_EQ(&capture.twin_of(twin), &twin);
}

TYPED_TEST(Captured, the_order_between_groups_is_the_graphs) {
  std::optional<detail::StreamCapture> capture(std::in_place, this->context, this->libraries);
  auto const before = this->counts();
  // Captured in this order: group a writes x; group b waits for a and copies x to y; group a waits
  // for b and writes x again.
  this->write(capture->twin_of(*this->a), *this->x, 5);
  this->copy(capture->twin_of(*this->b), *this->y, *this->x);
  this->write(capture->twin_of(*this->a), *this->x, 6);
  EXPECT_EQ(this->counts().issued - before.issued, 2U);
  auto const graph = this->end(*capture);
  EXPECT_EQ(this->value(*this->a, *this->y), 0);
  for (int launch = 0; launch < 30; ++launch) {
    this->x->cell.write(1, this->native(this->a->compute()));
    this->y->cell.write(1, this->native(this->a->compute()));
    this->launch(graph, *this->a);
    ASSERT_EQ(this->value(*this->a, *this->y), 5);
    ASSERT_EQ(this->value(*this->a, *this->x), 6);
  }
}

TYPED_TEST(Captured, copy_streams_are_captured_too) {
  detail::StreamCapture capture(this->context, this->libraries);
  auto& twin = capture.twin_of(*this->a);
  this->write(twin, *this->x, 5);
  this->write(twin, *this->x, 7, StreamKind::h2d);
  this->read(twin, *this->x, StreamKind::d2h);
  auto const graph = this->end(capture);
  this->launch(graph, *this->a);
  this->a->synchronize();
  EXPECT_EQ(this->x->cell.seen(), 7);
}

TYPED_TEST(Captured, what_runs_and_what_is_captured_do_not_wait_for_each_other) {
  for (bool const reduce_waits : {true, false}) {
    auto const own = this->make_context({.reduce_waits = reduce_waits, .explain = {}});
    auto const group = std::make_shared<detail::StreamGroup>(own, 0);
    auto const other = std::make_shared<detail::StreamGroup>(own, 1);
    detail::StreamCapture::Libraries libraries;
    detail::StreamCapture capture(own, libraries);
    auto& twin = capture.twin_of(*other);
    Gate gate;
    // The queue of `group` is [wait for the test's gate, write y]. The captured write of y is only
    // run by a launch of the graph, so it does not wait for the queue.
    gate.block(detail::runtime_of<TypeParam>(*own->runtime), this->native(group->compute()));
    this->write(*group, *this->y, 1);
    auto const before = own->tracker->wait_counts();
    this->write(twin, *this->y, 2);
    auto const captured = this->write(twin, *this->x, 2);
    auto const event = twin.compute().record();
    // The captured write of x has not run, so a write of x on the group `other` does not wait for
    // it.
    this->write(*other, *this->x, 3);
    other->compute().wait(event);
    EXPECT_EQ(own->tracker->wait_counts().issued, before.issued);
    EXPECT_TRUE(own->tracker->covers(other->compute().slot(), captured));
    EXPECT_TRUE(own->tracker->is_captured(captured));
    EXPECT_FALSE(own->tracker->is_complete(captured));
    other->synchronize();
    gate.open();
    group->synchronize();
    auto const graph = capture.end();
    EXPECT_TRUE(own->tracker->is_known_complete(captured));
    own->runtime->destroy_graph(graph);
    this->x->record.log = this->y->record.log = {};  // the tracker of their positions ends here
  }
}

TYPED_TEST(Captured, the_host_cannot_wait_for_it) {
  detail::StreamCapture capture(this->context, this->libraries);
  auto& twin = capture.twin_of(*this->b);
  auto const position = this->write(twin, *this->x, 2);
  auto const event = twin.compute().record();
  auto const refused = [](auto&& call) {
    try {
      call();
      ADD_FAILURE() << "the host waited for a capture";
    } catch (std::logic_error const& error) {
      EXPECT_NE(std::string(error.what()).find("group 1 compute"), std::string::npos)
          << error.what();
    }
  };
  refused([&] { this->context->tracker->synchronize(position); });
  refused([&] { twin.synchronize(); });
  refused([&] { static_cast<void>(event.query()); });
  // After the capture has refused calls, it is still usable.
  this->launch(this->end(capture), *this->a);
  EXPECT_EQ(this->value(*this->a, *this->x), 2);
  EXPECT_NO_THROW(this->context->tracker->synchronize(position));
}

TYPED_TEST(Captured, spans_are_not_recorded_in_it) {
  auto& spans = this->context->spans;
  spans.start(this->a->compute().native());
  detail::StreamCapture capture(this->context, this->libraries);
  this->write(capture.twin_of(*this->a), *this->x, 2);
  static_cast<void>(this->end(capture));
  EXPECT_TRUE(spans.stop().spans().empty());
}

TYPED_TEST(Captured, one_that_is_thrown_away_leaves_nothing) {
  std::size_t streams = 0;
  for (int round = 0; round < 3; ++round) {
    {
      detail::StreamCapture capture(this->context, this->libraries);
      this->write(capture.twin_of(*this->a), *this->x, 2);
      this->write(capture.twin_of(*this->b), *this->x, 3);
    }
    // Each capture reuses the stream indices of the abandoned capture before it.
    auto const now = this->context->tracker->stream_names().size();
    EXPECT_TRUE(round == 0 || now == streams) << now;
    streams = now;
  }
  EXPECT_EQ(this->value(*this->a, *this->x), 0);
  this->write(*this->b, *this->x, 4);
  EXPECT_EQ(this->value(*this->a, *this->x), 4);
}

TYPED_TEST(Captured, work_of_a_capture_that_is_over_is_none_of_the_next_in_its_place) {
  order::Position old;
  {
    detail::StreamCapture first(this->context, this->libraries);
    auto& twin = first.twin_of(*this->a);
    old = this->copy(twin, *this->y, *this->x);
    EXPECT_TRUE(this->context->tracker->is_captured(old));
    static_cast<void>(this->end(first));
  }
  EXPECT_FALSE(this->context->tracker->is_captured(old));
  detail::StreamCapture second(this->context, this->libraries);
  auto const now = this->copy(second.twin_of(*this->a), *this->y, *this->x);
  ASSERT_EQ(now.stream, old.stream) << "this test is about a place that is taken again";
  EXPECT_TRUE(this->context->tracker->is_captured(now));
  EXPECT_FALSE(this->context->tracker->is_captured(old));
  EXPECT_NO_THROW(this->context->tracker->synchronize(old));
  EXPECT_NO_THROW(this->context->tracker->finish(old));
  auto const graph = this->end(second);
  this->write(*this->a, *this->x, 6);
  this->launch(graph, *this->a);
  EXPECT_EQ(this->value(*this->a, *this->y), 6);
}

/// A host runtime that invalidates each capture after the library's last check that the capture is
/// valid, as another thread may do: it synchronizes the captured stream.
class HostEndedLate : public Host {
 public:
  using Host::Host;
  native_graph end_capture(native_stream origin) {
    EXPECT_THROW(synchronize_stream(origin), RuntimeError);
    return Host::end_capture(origin);
  }
};
static_assert(CapturingRuntime<HostEndedLate>);

TEST(CaptureFault, a_capture_that_is_ended_after_the_last_look_says_so) {
  using R = HostEndedLate;
  auto const context = std::make_shared<detail::StreamContext>(
      detail::make_backend<R>({}), std::make_shared<detail::DependencyTracker>(life_of<R>));
  auto const group = std::make_shared<detail::StreamGroup>(context, 0);
  detail::StreamCapture::Libraries libraries;
  detail::StreamCapture capture(context, libraries);
  static_cast<void>(capture.twin_of(*group));
  EXPECT_THAT([&] { static_cast<void>(capture.end()); },
              ::testing::ThrowsMessage<std::runtime_error>(
                  ::testing::StartsWith("the capture was ended from outside")));
}

TEST(CaptureFault, what_could_not_be_ordered_makes_no_graph) {
  using R = Faulty<Host>;
  auto const plan = std::make_shared<FaultPlan>();
  auto const context = std::make_shared<detail::StreamContext>(
      detail::make_backend<R>({.plan = plan}),
      std::make_shared<detail::DependencyTracker>(life_of<R>));
  auto const a = std::make_shared<detail::StreamGroup>(context, 0);
  auto const b = std::make_shared<detail::StreamGroup>(context, 1);
  detail::AccessRecord record;
  auto const use = [&](detail::StreamGroup& group) {
    detail::AccessSet accesses;
    accesses.add(record, AccessMode::write);
    group.submit("use", StreamKind::compute, accesses, detail::WorkRef::of<R>([](auto) {}));
  };
  {
    detail::StreamCapture::Libraries libraries;
    detail::StreamCapture capture(context, libraries);
    auto& first = capture.twin_of(*a);
    auto& second = capture.twin_of(*b);
    use(first);
    plan->fail(RuntimeCall::wait, 1, Fault::launch_failure);
    EXPECT_THROW(use(second), CudaError);
    EXPECT_THROW(static_cast<void>(capture.end()), std::runtime_error);
  }
  {
    // If creating the twin of a group fails, the capture can still be abandoned.
    detail::StreamCapture::Libraries libraries;
    detail::StreamCapture capture(context, libraries);
    plan->fail(RuntimeCall::wait, 2, Fault::launch_failure);
    EXPECT_THROW(static_cast<void>(capture.twin_of(*a)), CudaError);
  }
  use(*a);
  EXPECT_NO_THROW(a->synchronize());
}

}  // namespace
}  // namespace msstream::testing
