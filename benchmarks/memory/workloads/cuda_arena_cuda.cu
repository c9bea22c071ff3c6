// SPDX-License-Identifier: Apache-2.0
// The allocators of the CUDA toolkit, called as their users call them: with explicit streams and
// events.
#include "bare.hpp"
#include "cub_cache.hpp"
#include "cuda_success.hpp"
#include "msstream_contender.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>

namespace benchmarks::workloads {

namespace {

/// The source of memory of a compared allocator other than msstream.
class Source {
 public:
  Source() = default;
  Source(Source const&) = delete;
  Source& operator=(Source const&) = delete;
  virtual ~Source() = default;
  /// Allocates the memory of a block for work on `stream`. Returns null if there is no memory.
  virtual void* allocate(BlockUse const& use, cudaStream_t stream) = 0;
  /// Frees `memory`, whose last use is on `user`. Before that use, `user` has waited for the work
  /// that was enqueued on `owner`.
  virtual void free(void* memory, cudaStream_t user, cudaStream_t owner) = 0;
  [[nodiscard]] virtual std::size_t peak_reserved_bytes() const = 0;
};

/// Allocates with cudaMallocAsync from a pool that keeps all memory that it has reserved.
class AsyncPool final : public Source {
 public:
  explicit AsyncPool(Task const& task) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    require_success(cudaGetDevice(&properties.location.id), "cudaGetDevice");
    properties.maxSize = task.limit_bytes;
    require_success(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
    auto keep = std::numeric_limits<std::uint64_t>::max();
    require_success(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
                    "cudaMemPoolSetAttribute");
  }
  ~AsyncPool() override { cudaMemPoolDestroy(pool_); }

  void* allocate(BlockUse const& use, cudaStream_t stream) override {
    void* memory = nullptr;
    if (cudaMallocFromPoolAsync(&memory, use.bytes, pool_, stream) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    return memory;
  }
  void free(void* memory, cudaStream_t user, cudaStream_t) override {
    require_success(cudaFreeAsync(memory, user), "cudaFreeAsync");
  }
  std::size_t peak_reserved_bytes() const override {
    std::uint64_t peak = 0;
    require_success(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &peak),
                    "cudaMemPoolGetAttribute");
    return peak;
  }

 private:
  cudaMemPool_t pool_ = nullptr;
};

class CubSource final : public Source {
 public:
  explicit CubSource(Task const&) {
    require_success(cudaEventCreateWithFlags(&freed_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~CubSource() override { cudaEventDestroy(freed_); }

  void* allocate(BlockUse const& use, cudaStream_t stream) override {
    void* const memory = cache_.allocate(use.bytes, stream);
    auto const reserved = cache_.reserved_bytes();
    auto peak = peak_.load();
    while (peak < reserved && !peak_.compare_exchange_weak(peak, reserved)) {
    }
    return memory;
  }
  /// Frees `memory` after making `owner` wait for `user`: CUB's cache knows only the stream that a
  /// block was allocated on.
  void free(void* memory, cudaStream_t user, cudaStream_t owner) override {
    if (user != owner) {
      std::lock_guard const guard(mutex_);
      require_success(cudaEventRecord(freed_, user), "cudaEventRecord");
      require_success(cudaStreamWaitEvent(owner, freed_, 0), "cudaStreamWaitEvent");
    }
    cache_.free(memory);
  }
  std::size_t peak_reserved_bytes() const override { return peak_; }

 private:
  CubCache cache_;
  std::mutex mutex_;
  cudaEvent_t freed_ = nullptr;
  std::atomic<std::size_t> peak_{0};
};

/// A source of preallocated buffers, one for each block.
class OwnBuffers final : public Source {
 public:
  explicit OwnBuffers(Task const& task) : buffers_(task.blocks) {
    for (auto& buffer : buffers_) {
      require_success(cudaMalloc(&buffer, task.own_buffer_bytes), "cudaMalloc");
    }
  }
  ~OwnBuffers() override {
    for (auto* const buffer : buffers_) {
      cudaFree(buffer);
    }
  }
  void* allocate(BlockUse const& use, cudaStream_t) override { return buffers_[use.block]; }
  void free(void*, cudaStream_t, cudaStream_t) override {}
  std::size_t peak_reserved_bytes() const override { return 0; }

 private:
  std::vector<void*> buffers_;
};

/// A stream of a compared allocator, and the data that only the stream's thread uses.
struct Lane {
  cudaStream_t stream = nullptr;
  std::array<cudaEvent_t, 64> events{};
  std::size_t next_event = 0;
  std::uint64_t allocator_ns = 0;
};

class BareContender final : public Contender {
 public:
  BareContender(Task const& task, std::unique_ptr<Source> source)
      : own_buffer_bytes_(task.own_buffer_bytes),
        source_(std::move(source)),
        tags_(task.busy),
        held_(task.blocks),
        lanes_(static_cast<std::size_t>(task.streams)) {
    for (auto& lane : lanes_) {
      require_success(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking),
                      "cudaStreamCreateWithFlags");
      for (auto& event : lane.events) {
        require_success(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                        "cudaEventCreateWithFlags");
      }
    }
  }
  ~BareContender() override {
    cudaDeviceSynchronize();
    for (auto* const memory : held_) {
      if (memory != nullptr) {
        source_->free(memory, lanes_.front().stream, lanes_.front().stream);
      }
    }
    cudaDeviceSynchronize();
    source_.reset();
    for (auto const& lane : lanes_) {
      for (auto* const event : lane.events) {
        cudaEventDestroy(event);
      }
      cudaStreamDestroy(lane.stream);
    }
  }

  bool allocate_and_write(BlockUse const& use) override {
    auto& lane = lane_of(use.user);
    time(lane, [&] { held_[use.block] = source_->allocate(use, lane.stream); });
    if (held_[use.block] == nullptr) {
      return false;
    }
    tags_.write({lane.stream, nullptr}, tagged(use));
    return true;
  }
  void check_and_free(BlockUse const& use) override {
    auto& lane = lane_of(use.user);
    auto& owner = lane_of(use.owner);
    if (use.user != use.owner) {
      auto* const event = lane.events[lane.next_event++ % lane.events.size()];
      require_success(cudaEventRecord(event, owner.stream), "cudaEventRecord");
      require_success(cudaStreamWaitEvent(lane.stream, event, 0), "cudaStreamWaitEvent");
    }
    tags_.check({lane.stream, nullptr}, tagged(use));
    auto* const memory = std::exchange(held_[use.block], nullptr);
    time(lane, [&] { source_->free(memory, lane.stream, owner.stream); });
  }
  void synchronize() override { require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  Account account() const override {
    Account total;
    for (auto const& lane : lanes_) {
      total.allocator_ns += lane.allocator_ns;
    }
    total.peak_reserved_bytes = source_->peak_reserved_bytes();
    total.wrong_tags = tags_.wrong();
    return total;
  }

 private:
  template <class Action>
  static void time(Lane& lane, Action&& action) {
    auto const begin = std::chrono::steady_clock::now();
    action();
    auto const taken = std::chrono::steady_clock::now() - begin;
    lane.allocator_ns += static_cast<std::uint64_t>(std::chrono::nanoseconds(taken).count());
  }
  Lane& lane_of(int stream) { return lanes_[static_cast<std::size_t>(stream)]; }
  Tagged tagged(BlockUse const& use) const {
    auto const bytes = own_buffer_bytes_ == 0 ? use.bytes : std::min(use.bytes, own_buffer_bytes_);
    return {static_cast<std::uint64_t*>(held_[use.block]), TagPlaces::of(bytes), tag_of(use.block)};
  }

  std::size_t own_buffer_bytes_;
  std::unique_ptr<Source> source_;
  Tags<ms::CudaStream> tags_;
  std::vector<void*> held_;
  std::vector<Lane> lanes_;
};

constexpr char const* kOwnBuffers = "bare CUDA, own buffers";

template <class From>
Entrant entrant(char const* name, bool takes_limit, char const* preallocated) {
  return {name, takes_limit, preallocated, [preallocated](Task task) {
            if (*preallocated != '\0') {
              task.own_buffer_bytes = 0;
            }
            return std::make_unique<BareContender>(task, std::make_unique<From>(task));
          }};
}

}  // namespace

Arena cuda_arena() {
  require_success(cudaSetDevice(0), "cudaSetDevice");
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  Arena arena{"cuda", properties.name, Bare<ms::Cuda>::version(), {}};
  add_msstream<ms::Cuda>(arena.entrants);
  arena.entrants.push_back(entrant<AsyncPool>("cudaMallocAsync", true, kOwnBuffers));
  arena.entrants.push_back(entrant<CubSource>("CUB caching, tuned", false, kOwnBuffers));
  arena.entrants.push_back(entrant<OwnBuffers>(kOwnBuffers, false, ""));
  return arena;
}

}  // namespace benchmarks::workloads
