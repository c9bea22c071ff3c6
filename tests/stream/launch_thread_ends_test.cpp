// SPDX-License-Identifier: Apache-2.0
// Tests how stream pools end. Destroying a pool waits for its work; a group may be destroyed on a
// launch thread, or before the launch thread destroys an operation that was given up.
#include "base/watchdog.hpp"
#include "stream/stream_fixture.hpp"

#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/decorator.hpp>
#include <msstream/runtime/host.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace msstream::testing {
namespace {

/// A runtime that counts the operations that are given up, and the groups whose libraries are
/// destroyed.
template <class Inner>
class Heard : public RuntimeDecorator<Inner> {
  using Base = RuntimeDecorator<Inner>;

 public:
  using Options = typename Inner::Options;
  using typename Base::native_event;
  using typename Base::native_libraries;
  using typename Base::native_stream;
  static constexpr std::string_view name = Inner::name;

  explicit Heard(Options const& options = {}) : Base(options) {}

  std::function<void()> host_waits = [] {};  ///< called when the host starts to wait
  std::atomic<int> given_up{0};
  std::atomic<int> groups_destroyed{0};  ///< those whose libraries are destroyed

  void synchronize_stream(native_stream stream) {
    host_waits();
    Base::synchronize_stream(stream);
  }
  void synchronize(native_event event) {
    host_waits();
    Base::synchronize(event);
  }
  void operation_given_up(OperationHandle const& operation) noexcept {
    ++given_up;
    Base::operation_given_up(operation);
  }
  void destroy_libraries(native_libraries libraries) noexcept {
    Base::destroy_libraries(libraries);
    ++groups_destroyed;
    groups_destroyed.notify_all();
  }
};

/// A door that threads can pass only after it was opened.
class Door {
 public:
  void pass() const { open_.wait(false); }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

/// An object in the work of an operation. The thread that destroys it waits until the test allows
/// the destruction to go on.
class SlowToGo {
 public:
  SlowToGo() = default;
  SlowToGo(SlowToGo const&) = delete;
  SlowToGo& operator=(SlowToGo const&) = delete;
  ~SlowToGo() {
    doors_->is_going.open();
    doors_->may_go.pass();
  }

  struct Doors {
    Door is_going;
    Door may_go;
  };
  [[nodiscard]] std::shared_ptr<Doors> const& doors() const noexcept { return doors_; }

 private:
  std::shared_ptr<Doors> doors_ = std::make_shared<Doors>();
};

/// Work that owns a handle of its own group. `slow` is destroyed before `handle`, so the handle is
/// destroyed when the test lets `slow` go.
template <class Handle>
struct Owner {
  Handle handle;
  std::shared_ptr<SlowToGo> slow;
  template <class StreamRef>
  void operator()(StreamRef const&) const {}
};

template <class R>
class LaunchThreadEnds : public StreamTest<R> {
 protected:
  using Pool = StreamPool<R>;

  /// Issues work that owns `handle`, destroys the pool, and then lets the launch thread destroy the
  /// work. Returns when the last group is destroyed.
  template <class Handle>
  void end_with_handle_in_work(std::optional<Pool>& pool, Handle handle) {
    auto const groups = pool->groups();
    auto slow = std::make_shared<SlowToGo>();
    auto const doors = slow->doors();
    auto const before = this->runtime().groups_destroyed.load();
    auto& group = (*pool)[0].engine();
    this->run(group, Owner<Handle>{std::move(handle), std::move(slow)});
    doors->is_going.pass();
    pool.reset();
    EXPECT_EQ(this->runtime().groups_destroyed.load(), before + groups - 1)
        << "all but the one in the work";
    doors->may_go.open();
    for (auto& gone = this->runtime().groups_destroyed; gone.load() != before + groups;) {
      gone.wait(before + groups - 1);
    }
  }

  /// Expects that destroying a pool waits for its work, although the handle that `keep(pool)`
  /// returns lives on. A gate holds the work until the host starts to wait.
  template <class Keep>
  void expect_wait_although(LaunchThreads threads, Keep keep) {
    std::optional<Pool> pool(
        std::in_place, this->device(), StreamPoolOptions{.groups = 2, .launch_threads = threads});
    auto const kept = keep(*pool);
    auto const done = std::make_shared<std::atomic<bool>>(false);
    Gate gate;
    gate.hold((*pool)[1].compute());
    this->run((*pool)[1].engine(),
              [done](auto stream) { stream.run([done] { done->store(true); }); });
    this->runtime().host_waits = [&gate] { gate.open(); };
    pool.reset();
    EXPECT_TRUE(done->load()) << "the pool is gone before its work is over";
    gate.open();
    this->runtime().host_waits = [] {};
  }

  Watchdog watchdog_{[] { return std::string("a pool that ends"); }};
};
using HeardRuntimes = ::testing::Types<Heard<Host>, Heard<Checked<Host>>>;
struct HeardNames {
  template <class R>
  static std::string GetName(int) {
    return std::is_same_v<R, Heard<Host>> ? "plain" : "checked";
  }
};
TYPED_TEST_SUITE(LaunchThreadEnds, HeardRuntimes, HeardNames);

TYPED_TEST(LaunchThreadEnds, what_was_given_up_is_told_although_its_group_and_pool_are_gone) {
  std::optional<StreamPool<TypeParam>> pool(
      std::in_place,
      this->device(),
      StreamPoolOptions{
          .groups = 2, .launch_threads = LaunchThreads::shared, .launch_thread_count = 1});
  // Keeps a handle of another group, and so the launch thread, alive.
  std::optional<StreamGroup<TypeParam>> other((*pool)[1]);
  auto const cell = this->make_cell();
  Door all_is_queued;
  auto slow = std::make_shared<SlowToGo>();
  auto const doors = slow->doors();
  auto const issue_write = [&](char const* name, auto&& work) {
    detail::AccessSet accesses;
    accesses.add(cell->record, AccessMode::write);
    this->submit((*pool)[0].engine(), name, accesses, std::forward<decltype(work)>(work));
  };
  // The queue of stream group 0 is [operation that fails, operation that follows it].
  issue_write("fails", [&](auto) {
    all_is_queued.pass();
    throw std::runtime_error("late");
  });
  issue_write("follows", [slow = std::move(slow)](auto) { FAIL() << "is launched"; });
  all_is_queued.open();
  // Waits until the launch thread, which has given up the second operation, destroys the
  // operation's work.
  doors->is_going.pass();
  EXPECT_EQ(this->runtime().given_up.load(), 0);
  EXPECT_THROW(pool->synchronize(), std::runtime_error);
  pool.reset();
  EXPECT_EQ(this->runtime().groups_destroyed.load(), 1);
  doors->may_go.open();
  other.reset();  // ends the launch thread
  EXPECT_EQ(this->runtime().given_up.load(), 1);
}

TYPED_TEST(LaunchThreadEnds, a_group_may_go_on_a_launch_thread) {
  for (auto const threads : {LaunchThreads::shared, LaunchThreads::per_group}) {
    for (int const groups : {1, 2}) {
      std::optional<StreamPool<TypeParam>> pool(
          std::in_place,
          this->device(),
          StreamPoolOptions{.groups = groups, .launch_threads = threads});
      this->end_with_handle_in_work(pool, (*pool)[0]);
    }
  }
}

TYPED_TEST(LaunchThreadEnds, a_stream_may_go_on_a_launch_thread) {
  for (auto const threads : {LaunchThreads::shared, LaunchThreads::per_group}) {
    for (auto const kind : {StreamKind::compute, StreamKind::h2d}) {
      std::optional<StreamPool<TypeParam>> pool(
          std::in_place, this->device(), StreamPoolOptions{.groups = 1, .launch_threads = threads});
      this->end_with_handle_in_work(pool, (*pool)[0].stream(kind));
    }
  }
}

/// Destroys the last handle of a group inside the work of an operation, while the launch thread
/// launches it.
TYPED_TEST(LaunchThreadEnds, a_group_may_go_inside_work_on_a_launch_thread) {
  std::optional<StreamPool<TypeParam>> pool(
      std::in_place,
      this->device(),
      StreamPoolOptions{.groups = 1, .launch_threads = LaunchThreads::per_group});
  auto const held = std::make_shared<std::optional<StreamGroup<TypeParam>>>((*pool)[0]);
  this->run((*pool)[0].engine(), [held](auto) { held->reset(); });
  pool->synchronize();
  EXPECT_FALSE(held->has_value());
  pool.reset();
  EXPECT_EQ(this->runtime().groups_destroyed.load(), 1);
}

TYPED_TEST(LaunchThreadEnds, a_pool_waits_for_its_work_although_a_handle_lives_on) {
  for (auto const threads :
       {LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group}) {
    this->expect_wait_although(threads, [](auto const& pool) { return pool[1]; });
    this->expect_wait_although(threads, [](auto const& pool) { return pool[1].compute(); });
    this->expect_wait_although(threads, [](auto const& pool) { return pool[1].d2h(); });
  }
}

}  // namespace
}  // namespace msstream::testing
