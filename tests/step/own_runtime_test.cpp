// SPDX-License-Identifier: Apache-2.0
// Tests a runtime written by a user, which has only what the concept Runtime requires. Programs on
// it are the same as on the library's runtimes.
#include <msstream/memory/device.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/host.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

struct OwnOptions {
  std::size_t memory_bytes = 0;
};

/// A runtime that passes all calls on to a host runtime, and counts some of them.
class Own {
 public:
  using Options = OwnOptions;
  using native_stream = Host::native_stream;
  using native_event = Host::native_event;
  using native_libraries = Host::native_libraries;
  using stream_ref = Host::stream_ref;

  static constexpr std::string_view name = "own";

  explicit Own(Options const& options = {}) : host_({.memory_bytes = options.memory_bytes}) {}

  native_stream create_stream(StreamPriority priority) { return host_.create_stream(priority); }
  void destroy_stream(native_stream stream) noexcept { host_.destroy_stream(stream); }
  void synchronize_stream(native_stream stream) { host_.synchronize_stream(stream); }

  native_event create_event(EventTiming timing) { return host_.create_event(timing); }
  void destroy_event(native_event event) noexcept { host_.destroy_event(event); }
  void record(native_event event, native_stream stream) { host_.record(event, stream); }
  void wait(native_stream stream, native_event event) { host_.wait(stream, event); }
  bool query(native_event event) { return host_.query(event); }
  void synchronize(native_event event) { host_.synchronize(event); }
  double elapsed_ns(native_event begin, native_event end) { return host_.elapsed_ns(begin, end); }

  void* allocate_device(std::size_t bytes) {
    ++device_blocks_;
    return host_.allocate_device(bytes);
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    --device_blocks_;
    host_.free_device(memory, bytes);
  }
  void* allocate_pinned(std::size_t bytes) { return host_.allocate_pinned(bytes); }
  void free_pinned(void* memory, std::size_t bytes) noexcept { host_.free_pinned(memory, bytes); }
  [[nodiscard]] MemoryInfo memory_info() const { return host_.memory_info(); }

  void copy(void* to, void const* from, std::size_t bytes, CopyKind kind, native_stream stream) {
    ++copies_;
    host_.copy(to, from, bytes, kind, stream);
  }
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
    host_.fill(memory, value, bytes, stream);
  }
  void call_host(native_stream stream, Closure closure) {
    host_.call_host(stream, std::move(closure));
  }

  native_libraries create_libraries(LibraryOptions const& options) {
    return host_.create_libraries(options);
  }
  void destroy_libraries(native_libraries libraries) noexcept {
    host_.destroy_libraries(libraries);
  }
  [[nodiscard]] stream_ref ref(native_stream stream, native_libraries libraries) const {
    return host_.ref(stream, libraries);
  }

  [[nodiscard]] std::int64_t device_blocks() const noexcept { return device_blocks_.load(); }
  [[nodiscard]] std::int64_t copies() const noexcept { return copies_.load(); }

 private:
  Host host_;
  std::atomic<std::int64_t> device_blocks_{0};
  std::atomic<std::int64_t> copies_{0};
};
static_assert(Runtime<Own>);
static_assert(!PagedRuntime<Own> && !CapturingRuntime<Own> && !InteropRuntime<Own> &&
              !ObservingRuntime<Own>);
static_assert(Runtime<Checked<Own>> && OrderObservingRuntime<Checked<Own>>);
static_assert(!PagedRuntime<Checked<Own>> && !CapturingRuntime<Checked<Own>> &&
              !InteropRuntime<Checked<Own>>);

template <class R>
class OwnRuntime : public ::testing::Test {
 protected:
  static_assert(std::is_same_v<R, Own> || std::is_same_v<R, Checked<Own>>);

  [[nodiscard]] Own& own() const {
    if constexpr (std::is_same_v<R, Own>) {
      return device.runtime();
    } else {
      return device.runtime().inner();
    }
  }
  void TearDown() override {
    if constexpr (!std::is_same_v<R, Own>) {
      EXPECT_EQ(device.runtime().checker()->count(), 0U) << device.runtime().checker()->json();
    }
  }
  [[nodiscard]] Tensor<float, R> put(std::vector<float> const& elements, Shape const& shape) const {
    return to_device<float>(device, elements, shape);
  }

  Device<R> const device;
};
struct OwnRuntimeNames {
  template <class R>
  static std::string GetName(int) {
    return std::is_same_v<R, Own> ? "plain" : "checked";
  }
};
using OwnRuntimes = ::testing::Types<Own, Checked<Own>>;
TYPED_TEST_SUITE(OwnRuntime, OwnRuntimes, OwnRuntimeNames);

TYPED_TEST(OwnRuntime, has_tensors_copies_and_operations) {
  auto const x = this->put({1, 2, 3, 4}, {2, 2});
  auto const y = this->put({1, 0, 0, 2}, {2, 2});
  EXPECT_THAT(to_host(ops::add(x, y)), ElementsAre(2, 2, 3, 6));
  EXPECT_THAT(to_host(ops::matmul(x, y)), ElementsAre(1, 4, 3, 8));
  EXPECT_THAT(to_host(zeros<std::int64_t>(this->device, {3})), Each(0));
  EXPECT_GT(this->own().copies(), 0);
  EXPECT_GT(this->own().device_blocks(), 0);
}

TYPED_TEST(OwnRuntime, gives_memory_back) {
  {
    Tensor<float, TypeParam> const large(this->device, {1 << 20});
    EXPECT_GT(this->own().device_blocks(), 0);
  }
  this->device.return_cached_memory();
  EXPECT_EQ(this->own().device_blocks(), 0);
}

TYPED_TEST(OwnRuntime, trains) {
  auto const weight = this->put({1, -2}, {2, 1});
  Optimizer<TypeParam> optimizer(this->device,
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.5F});
  optimizer.add("weight", weight);
  GradientTape tape(this->device);
  auto const x = this->put({1, 0, 0, 1}, {2, 2});
  // The gradient of the sum of x·weight is 1 for both elements.
  auto const loss = ops::sum(tape, ops::matmul(tape, x, weight));
  EXPECT_THAT(to_host(loss), ElementsAre(-1));
  tape.backward(loss);
  optimizer.step(tape);
  tape.clear();
  EXPECT_THAT(to_host(weight), ElementsAre(0.5F, -2.5F));
}

TYPED_TEST(OwnRuntime, orders_work_of_groups_with_and_without_launch_threads) {
  for (auto const threads :
       {LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group}) {
    StreamPool<TypeParam> pool(this->device, {.groups = 3, .launch_threads = threads});
    auto const sum = zeros<float>(this->device, {1});
    constexpr int kAdditions = 60;
    for (int i = 0; i < kAdditions; ++i) {
      StreamScope const scope(pool[i % pool.groups()]);
      auto* const element = sum.data();
      issue("add one", reads(sum), writes(sum), [element](HostStream stream) {
        stream.run([element] { *element += 1; });
      });
    }
    EXPECT_THAT(to_host(sum), ElementsAre(kAdditions));
    pool.synchronize();
  }
}

TYPED_TEST(OwnRuntime, passes_failures_of_launch_threads_on) {
  StreamPool<TypeParam> pool(this->device,
                             {.groups = 1, .launch_threads = LaunchThreads::per_group});
  auto const x = zeros<float>(this->device, {1});
  {
    StreamScope const scope(pool[0]);
    issue("fails", writes(x), [](HostStream) { throw std::runtime_error("late"); });
  }
  EXPECT_THROW(pool.synchronize(), std::runtime_error);
  EXPECT_NO_THROW(pool.synchronize());
}

TYPED_TEST(OwnRuntime, streams_wait_for_events) {
  Stream<TypeParam> const first(this->device);
  Stream<TypeParam> const second(this->device);
  auto const event = first.record();
  second.wait(event);
  second.synchronize();
  EXPECT_TRUE(event.query());
}

TYPED_TEST(OwnRuntime, records_spans) {
  auto const x = zeros<float>(this->device, {1});
  this->device.start_spans();
  issue("spanned", writes(x), [](HostStream stream) { stream.run([] {}); });
  EXPECT_EQ(this->device.stop_spans().spans().size(), 1U);
}

}  // namespace
}  // namespace msstream::testing
