// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"
#include "cub_cache.hpp"
#include "memory/device/device_state.hpp"
#include "suite.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/tensor.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

/// Benchmarks of allocation and release without work on the memory: tensors, and the blocks beneath
/// them, compared with the runtime's stream-ordered allocation and with CUB's cache.
namespace benchmarks {
namespace {

/// A fixed sequence of random draws that is used cyclically, so that drawing is not measured.
class Draws {
 public:
  Draws(axes::ByteRange const& range, int thread) {
    std::mt19937_64 random(static_cast<std::uint64_t>(thread) + 1);
    std::uniform_real_distribution<double> doublings(std::log2(static_cast<double>(range.least)),
                                                     std::log2(static_cast<double>(range.most)));
    std::uniform_int_distribution<std::size_t> slots(0, axes::kLiveBlocksPerThread - 1);
    for (auto& draw : draws_) {
      draw = {static_cast<std::size_t>(std::exp2(doublings(random))), slots(random)};
    }
  }

  struct Draw {
    std::size_t bytes;
    std::size_t slot;  ///< index of the live block that a new block replaces
  };
  Draw const& next() { return draws_[next_++ % kCount]; }

 private:
  static constexpr std::size_t kCount = 2 * axes::kAllocationsPerBatch;

  std::vector<Draw> draws_ = std::vector<Draw>(kCount);
  std::size_t next_ = 0;
};

/// The device and the stream pool that both sides of a comparison use.
template <ms::Runtime R>
struct Stage {
  explicit Stage(int threads) : pool(device, {.groups = threads}) {}

  ms::Device<R> device;
  ms::StreamPool<R> pool;
};

/// A block of memory that is freed on destruction, through the source that it came from.
template <class Source>
class Owned {
 public:
  Owned(Source& source, std::size_t bytes) : source_(&source), memory_(source.allocate(bytes)) {}
  Owned(Owned const&) = delete;
  Owned& operator=(Owned const&) = delete;
  ~Owned() { source_->free(memory_); }
  [[nodiscard]] void* address() const { return memory_; }

 private:
  Source* source_;
  void* memory_;
};

// A source is an allocator under comparison, for the use of one thread. Its `Shared` is the state
// that the sources of all threads have in common. Its `Held` is made from a source and a number of
// bytes, and releases its memory on destruction.

struct NothingShared {};

template <ms::Runtime R>
struct Tensors {
  using Shared = NothingShared;
  class Held {
   public:
    Held(Tensors& source, std::size_t bytes)
        : tensor_(source.stage.device, ms::Shape{static_cast<std::int64_t>(bytes)}) {}
    [[nodiscard]] void* address() const { return tensor_.data(); }

   private:
    ms::Tensor<std::uint8_t, R> tensor_;
  };

  Tensors(Stage<R>& on, ms::StreamGroup<R> const&, Shared&) : stage(on) {}
  Stage<R>& stage;
};

/// Takes blocks from msstream's allocator, without a tensor: an address on a stream and nothing
/// more.
template <ms::Runtime R>
struct Blocks {
  using Shared = NothingShared;
  class Held {
   public:
    Held(Blocks& source, std::size_t bytes)
        : block_(source.state->memory.allocate(bytes, source.slot, source.state)) {}
    [[nodiscard]] void* address() const { return block_->data; }

   private:
    ms::memory::BlockRef block_;
  };

  Blocks(Stage<R>& on, ms::StreamGroup<R> const& group, Shared&)
      : state(on.device.state()), slot(group.engine().compute().slot()) {}
  std::shared_ptr<ms::detail::DeviceState> state;
  ms::detail::StreamSlot& slot;
};

template <ms::Runtime R>
class BareMemory {
 public:
  using Shared = NothingShared;
  using Held = Owned<BareMemory>;

  BareMemory(Stage<R>& stage, ms::StreamGroup<R> const& group, Shared&)
      : bare_(stage.device.runtime()), stream_(group.compute().native()) {}
  void* allocate(std::size_t bytes) { return bare_.allocate(bytes, stream_); }
  void free(void* memory) { bare_.free(memory, stream_); }

 private:
  Bare<R> bare_;
  typename R::native_stream stream_;
};

#if MSSTREAM_CUDA
class CubMemory {
 public:
  using Shared = CubCache;
  using Held = Owned<CubMemory>;

  CubMemory(Stage<ms::Cuda>&, ms::StreamGroup<ms::Cuda> const& group, CubCache& cache)
      : cache_(cache), stream_(group.compute().native()) {}
  void* allocate(std::size_t bytes) { return cache_.allocate(bytes, stream_); }
  void free(void* memory) { cache_.free(memory); }

 private:
  CubCache& cache_;
  CUstream_st* stream_;
};
#endif

enum class Pattern : std::uint8_t { pair, churn };

/// The allocations and releases of one thread, on its own stream.
template <class Source, ms::Runtime R>
class alignas(64) Lane {
 public:
  Lane(Stage<R>& stage, typename Source::Shared& shared, axes::ByteRange const& range, int thread)
      : group_(stage.pool[thread]),
        source_(stage, group_, shared),
        draws_(range, thread),
        held_(axes::kLiveBlocksPerThread) {}

  void run(Pattern pattern) {
    ms::StreamScope<R> const scope(group_);
    for (int i = 0; i < axes::kAllocationsPerBatch; ++i) {
      auto const& draw = draws_.next();
      if (pattern == Pattern::pair) {
        typename Source::Held const held(source_, draw.bytes);
        benchmark::DoNotOptimize(held.address());
      } else {
        held_[draw.slot].reset();
        held_[draw.slot].emplace(source_, draw.bytes);
      }
    }
  }

 private:
  ms::StreamGroup<R> group_;
  Source source_;
  Draws draws_;
  std::vector<std::optional<typename Source::Held>> held_;
};

/// One side of a comparison: a lane for each thread.
template <class Source, ms::Runtime R>
class Side {
 public:
  Side(Stage<R>& stage, axes::ByteRange const& range, int threads) {
    for (int thread = 0; thread < threads; ++thread) {
      lanes_.push_back(std::make_unique<Lane<Source, R>>(stage, shared_, range, thread));
    }
  }
  [[nodiscard]] Team::Work work(Pattern pattern) const {
    return [this, pattern](int thread) { lanes_[static_cast<std::size_t>(thread)]->run(pattern); };
  }

 private:
  typename Source::Shared shared_;
  std::vector<std::unique_ptr<Lane<Source, R>>> lanes_;
};

/// Runs one comparison. Reports the time that one thread waits for one operation, so that
/// contention is visible.
template <class Ours, class Theirs, ms::Runtime R>
void run(benchmark::State& state, Pattern pattern, axes::ByteRange const& range, int threads) {
  Stage<R> stage(threads);
  auto& runtime = stage.device.runtime();
  Bare<R> const bare(runtime);
  Side<Ours, R> const ours(stage, range, threads);
  Side<Theirs, R> const theirs(stage, range, threads);
  auto const settle = [&] {
    for (int group = 0; group < threads; ++group) {
      runtime.synchronize_stream(stage.pool[group].compute().native());
    }
    bare.check();
  };
  Sides const sides{
      theirs.work(pattern), ours.work(pattern), settle, axes::kAllocationRoundsOfOurs};
  compare(state, threads, axes::kAllocationsPerBatch, sides);
}

/// Adds the benchmarks that compare two allocators, for all patterns, sizes and numbers of threads.
/// `what` is the end of their names, before the number of threads.
template <class Ours, class Theirs, ms::Runtime R>
void add_comparison(std::string const& what) {
  for (auto const pattern : {Pattern::pair, Pattern::churn}) {
    for (auto const& range : axes::kAllocations) {
      for (int const threads : axes::kAllocatingThreads) {
        auto const name = fmt::format("allocator/{}{}{}{}/threads:{}",
                                      R::name,
                                      pattern == Pattern::pair ? "/pair/" : "/churn/",
                                      range.name,
                                      what,
                                      threads);
        add(name, axes::kAllocationBatches, [=](benchmark::State& state) {
          run<Ours, Theirs, R>(state, pattern, range, threads);
        });
      }
    }
  }
}

}  // namespace

void add_host_benchmarks() {
  add_comparison<Tensors<ms::Host>, BareMemory<ms::Host>, ms::Host>("");
  add_comparison<Blocks<ms::Host>, BareMemory<ms::Host>, ms::Host>("/blocks");
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_comparison<Tensors<ms::Cuda>, BareMemory<ms::Cuda>, ms::Cuda>("");
  add_comparison<Blocks<ms::Cuda>, BareMemory<ms::Cuda>, ms::Cuda>("/blocks");
  add_comparison<Blocks<ms::Cuda>, CubMemory, ms::Cuda>("/blocks_beside_cub");
#endif
}

}  // namespace benchmarks
