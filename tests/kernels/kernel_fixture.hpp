// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/host/host_queue.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/base/error.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if MSSTREAM_CUDA
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#endif

namespace msstream::ops::kernels::testing {

/// A byte that fills memory which a kernel has to write, so that a missed element is visible: NaN
/// as a float, -1 as an integer.
inline constexpr int kPoisonByte = 0xFF;

/// A stream, memory and copies of a machine (the host or a GPU) for kernel tests. There is one
/// specialisation for each kind of stream.
template <class Stream>
class Machine;

template <>
class Machine<HostStream> {
 public:
  static std::string why_unavailable() { return {}; }

  HostStream stream() { return HostStream(queue_); }

  // Allocates exactly the requested size, so that a sanitizer detects an access to the first byte
  // out of bounds.
  std::shared_ptr<void> allocate(std::size_t bytes) {
    return {::operator new(bytes, kAlignment), [](void* p) { ::operator delete(p, kAlignment); }};
  }
  std::shared_ptr<void> allocate_pinned(std::size_t bytes) { return allocate(bytes); }
  void fill(void* to, int byte, std::size_t bytes) { std::memset(to, byte, bytes); }
  void copy_in(void* to, void const* from, std::size_t bytes) { copy(to, from, bytes); }
  void copy_out(void* to, void const* from, std::size_t bytes) { copy(to, from, bytes); }

  void synchronise() {
    queue_.progress()->wait(queue_.enqueued());
    queue_.progress()->rethrow_failure_up_to(queue_.enqueued());
  }
  template <class Issue>
  void replay(Issue&& issue) {
    issue(stream());
  }

 private:
  static constexpr std::align_val_t kAlignment{256};

  static void copy(void* to, void const* from, std::size_t bytes) {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }

  HostQueue queue_;
};

#if MSSTREAM_CUDA
template <>
class Machine<CudaStream> {
 public:
  static std::string why_unavailable() {
    int devices = 0;
    auto const code = cudaGetDeviceCount(&devices);
    if (code != cudaSuccess) {
      (void)cudaGetLastError();  // clears the error, which the next call would report
      return fmt::format("no CUDA device: {}", cudaGetErrorString(code));
    }
    return devices > 0 ? std::string() : "no CUDA device on this machine";
  }

  Machine() {
    check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    workspace_ = allocate(kWorkspaceBytes);
    auto const status = cublasLtCreate(&libraries_.blas);
    require(status == CUBLAS_STATUS_SUCCESS, "cublasLtCreate failed: {}", static_cast<int>(status));
    check(cudaGetDevice(&libraries_.ordinal), "cudaGetDevice");
    libraries_.workspace = workspace_.get();
    libraries_.workspace_bytes = kWorkspaceBytes;
    libraries_.precision = MatmulPrecision::float32;
  }
  ~Machine() {
    EXPECT_EQ(cublasLtDestroy(libraries_.blas), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamDestroy(handle_), cudaSuccess);
  }
  Machine(Machine const&) = delete;
  Machine& operator=(Machine const&) = delete;

  CudaStream stream() { return {handle_, &libraries_}; }

  // Allocates memory with poisoned guard bytes after it. If a kernel wrote to the guard bytes, the
  // test fails when the memory is released.
  std::shared_ptr<void> allocate(std::size_t bytes) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes + kGuardBytes), "cudaMalloc");
    std::byte* const guard = static_cast<std::byte*>(data) + bytes;
    fill(guard, kPoisonByte, kGuardBytes);
    return {data, [guard](void* memory) {
              std::byte found[kGuardBytes];
              EXPECT_EQ(cudaMemcpy(found, guard, kGuardBytes, cudaMemcpyDeviceToHost), cudaSuccess);
              EXPECT_TRUE(std::all_of(found, found + kGuardBytes, [](std::byte b) {
                return b == std::byte{kPoisonByte};
              })) << "a kernel wrote past the end of a buffer";
              EXPECT_EQ(cudaFree(memory), cudaSuccess);
            }};
  }
  std::shared_ptr<void> allocate_pinned(std::size_t bytes) {
    void* data = nullptr;
    check(cudaMallocHost(&data, bytes), "cudaMallocHost");
    return {data, [](void* memory) { EXPECT_EQ(cudaFreeHost(memory), cudaSuccess); }};
  }
  void fill(void* to, int byte, std::size_t bytes) {
    check(cudaMemsetAsync(to, byte, bytes, handle_), "cudaMemsetAsync");
    synchronise();
  }
  void copy_in(void* to, void const* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, handle_), "cudaMemcpyAsync");
    synchronise();
  }
  void copy_out(void* to, void const* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, handle_), "cudaMemcpyAsync");
    synchronise();
  }
  void synchronise() { check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

  template <class Issue>
  void replay(Issue&& issue) {
    check(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    issue(stream());
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(handle_, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphLaunch(executable, handle_), "cudaGraphLaunch");
    synchronise();
    check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }

 private:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{4} << 20U;
  static constexpr std::size_t kGuardBytes = 256;

  static void check(cudaError_t code, char const* call) {
    if (code != cudaSuccess) {
      throw CudaError(static_cast<int>(code), cudaGetErrorString(code), call);
    }
  }

  cudaStream_t handle_ = nullptr;
  std::shared_ptr<void> workspace_;
  CudaStream::Libraries libraries_{};
};
#if MSSTREAM_TESTS_OF_CUDA_ALONE
using StreamKinds = ::testing::Types<CudaStream>;
#else
using StreamKinds = ::testing::Types<HostStream, CudaStream>;
#endif
#else
using StreamKinds = ::testing::Types<HostStream>;
#endif

/// Widths of rows that take every path of the kernels: loads of 16 bytes, loads of single floats,
/// and rows wider than a warp.
inline constexpr std::int64_t kWidths[] = {1, 3, 4, 16, 33, 128, 200};

struct StreamKindName {
  template <class Stream>
  static std::string GetName(int) {
    return std::is_same_v<Stream, HostStream> ? "Host" : "Cuda";
  }
};

/// The memory of `count` elements on one machine.
template <class T>
class Buffer {
 public:
  Buffer(std::shared_ptr<void> memory, std::size_t count)
      : memory_(std::move(memory)), count_(count) {}

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  /// Returns a slice of the buffer that shares its memory.
  [[nodiscard]] Buffer slice(std::int64_t first, std::int64_t count) const {
    return {std::shared_ptr<void>(memory_, data() + first), static_cast<std::size_t>(count)};
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_;
};

/// An output of `count` floats for a kernel, after `offset` and before kGuardFloats poisoned
/// floats.
struct GuardedOutput {
  static constexpr std::int64_t kGuardFloats = 3000;  // more than a block of threads writes at once

  Buffer<float> memory;
  std::int64_t offset;
  std::int64_t count;

  [[nodiscard]] float* data() const { return memory.data() + offset; }
};

/// Sizes of arrays for which elementwise kernels on a GPU process one or two Quads (four floats)
/// per thread, and which end at any position within a Quad.
inline constexpr std::int64_t kManyFloats[] = {131'071, 131'072, 131'073, 132'095, 300'001};

/// A generator of random numbers. Its seed is fresh, or the value of MSSTREAM_TEST_SEED, which
/// reproduces a failure.
class Random {
 public:
  Random() {
    char const* const chosen = std::getenv("MSSTREAM_TEST_SEED");
    seed_ = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device{}();
    engine_.seed(seed_);
  }

  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  /// Returns a uniformly distributed integer in [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  float real(float low = -1.0F, float high = 1.0F) {
    return std::uniform_real_distribution<float>(low, high)(engine_);
  }
  std::vector<std::int64_t> integers(std::int64_t count, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(count));
    std::generate(out.begin(), out.end(), [&] { return integer(low, high); });
    return out;
  }
  std::vector<float> reals(std::int64_t count, float low = -1.0F, float high = 1.0F) {
    std::vector<float> out(static_cast<std::size_t>(count));
    std::generate(out.begin(), out.end(), [&] { return real(low, high); });
    return out;
  }

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

/// A fixture with a stream and functions that upload inputs of a kernel and read its outputs. If
/// the machine has no device of the stream's kind, skips the test with a message.
///
/// Uploads and reads are synchronous, and read() throws the error of a kernel that failed on the
/// stream.
template <class Stream>
class KernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const why = Machine<Stream>::why_unavailable(); !why.empty()) {
      GTEST_SKIP() << "CUDA twin not tested: " << why;
    }
    machine_.emplace();
  }
  void TearDown() override {
    if (HasFailure()) {
      std::cerr << "random seed: MSSTREAM_TEST_SEED=" << random.seed() << '\n';
    }
  }

  Stream stream() { return machine_->stream(); }
  void synchronise() { machine_->synchronise(); }
  /// Calls `issue(stream)` and waits for the work. On CUDA, captures the work in a graph and
  /// launches it once.
  template <class Issue>
  void replay(Issue&& issue) {
    machine_->replay(std::forward<Issue>(issue));
    synchronise();
  }

  template <class T>
  Buffer<T> upload(std::vector<T> const& values) {
    Buffer<T> buffer(machine_->allocate(values.size() * sizeof(T)), values.size());
    machine_->copy_in(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  /// Overwrites a buffer after all work issued before has completed.
  template <class T>
  void write(Buffer<T> const& to, std::vector<T> const& values) {
    ASSERT_EQ(to.count(), values.size());
    synchronise();
    machine_->copy_in(to.data(), values.data(), to.bytes());
  }
  template <class T>
  Buffer<T> poisoned(std::int64_t count) {
    auto const elements = static_cast<std::size_t>(count);
    Buffer<T> buffer(machine_->allocate(elements * sizeof(T)), elements);
    poison(buffer);
    return buffer;
  }
  Buffer<float> floats(std::int64_t count) { return poisoned<float>(count); }
  GuardedOutput guarded(std::int64_t count, std::int64_t offset = 0) {
    return {floats(offset + count + GuardedOutput::kGuardFloats), offset, count};
  }
  Buffer<std::int64_t> integers(std::int64_t count) { return poisoned<std::int64_t>(count); }
  Buffer<std::byte> workspace(std::size_t bytes) {
    return poisoned<std::byte>(static_cast<std::int64_t>(bytes));
  }
  Buffer<std::int64_t> scalar(std::int64_t value) { return upload(std::vector{value}); }
  /// Returns one object that both the host and the kernels can access.
  template <class T>
  Buffer<T> pinned(T const& value) {
    Buffer<T> buffer(machine_->allocate_pinned(sizeof(T)), 1);
    new (buffer.data()) T(value);
    return buffer;
  }

  template <class T>
  void poison(Buffer<T> const& buffer) {
    synchronise();
    machine_->fill(buffer.data(), kPoisonByte, buffer.bytes());
  }
  template <class T>
  std::vector<std::remove_const_t<T>> read(Buffer<T> const& buffer) {
    synchronise();
    std::vector<std::remove_const_t<T>> values(buffer.count());
    machine_->copy_out(values.data(), buffer.data(), buffer.bytes());
    return values;
  }
  /// Returns the floats of the output without the poisoned memory around it. The test fails if a
  /// kernel wrote to that memory.
  std::vector<float> read(GuardedOutput const& output) {
    auto const all = read(output.memory);
    auto const first = all.begin() + output.offset;
    auto const last = first + output.count;
    auto const is_poison = [](float value) { return std::isnan(value); };
    EXPECT_TRUE(std::all_of(all.begin(), first, is_poison)) << "written before the output";
    EXPECT_TRUE(std::all_of(last, all.end(), is_poison)) << "written behind the output";
    return {first, last};
  }

  Random random;

 private:
  std::optional<Machine<Stream>> machine_;
};

}  // namespace msstream::ops::kernels::testing
