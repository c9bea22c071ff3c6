// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"
#include "suite.hpp"

#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

/// Tensors made and dropped, beside the runtime's own stream-ordered allocations.
namespace benchmarks {
namespace {

/// A fixed sequence of random draws, walked through again and again: drawing is not measured.
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
    std::size_t slot;  ///< which live block it replaces
  };
  Draw const& next() { return draws_[next_++ % draws_.size()]; }

 private:
  std::vector<Draw> draws_ = std::vector<Draw>(4096);
  std::size_t next_ = 0;
};

/// One thread's live blocks of both sides, each on the same stream.
template <ms::Runtime R>
class Lane {
 public:
  using Bytes = ms::Tensor<std::uint8_t, R>;

  Lane(ms::Device<R> const& device,
       ms::StreamGroup<R>& group,
       axes::ByteRange const& range,
       int thread)
      : device_(device),
        group_(group),
        bare_(*device.context()->runtime),
        our_draws_(range, thread),
        bare_draws_(range, thread) {
    ms::StreamScope<R> const scope(group_);
    for (int slot = 0; slot < axes::kLiveBlocksPerThread; ++slot) {
      our_blocks_.push_back(tensor(our_draws_.next().bytes));
      bare_blocks_.push_back(allocate(bare_draws_.next().bytes));
    }
  }
  Lane(Lane const&) = delete;
  Lane& operator=(Lane const&) = delete;
  ~Lane() {
    for (auto* const block : bare_blocks_) {
      release(block);
    }
  }

  void our_pairs() {
    ms::StreamScope<R> const scope(group_);
    for (int i = 0; i < axes::kOperationsPerBatch; ++i) {
      auto const block = tensor(our_draws_.next().bytes);
      benchmark::DoNotOptimize(block.data());
    }
  }
  void bare_pairs() {
    for (int i = 0; i < axes::kOperationsPerBatch; ++i) {
      auto* const block = allocate(bare_draws_.next().bytes);
      benchmark::DoNotOptimize(block);
      release(block);
    }
  }

  void our_churn() {
    ms::StreamScope<R> const scope(group_);
    for (int i = 0; i < axes::kOperationsPerBatch; ++i) {
      auto const& draw = our_draws_.next();
      our_blocks_[draw.slot] = tensor(draw.bytes);
    }
  }
  void bare_churn() {
    for (int i = 0; i < axes::kOperationsPerBatch; ++i) {
      auto const& draw = bare_draws_.next();
      auto* const block = allocate(draw.bytes);
      release(bare_blocks_[draw.slot]);
      bare_blocks_[draw.slot] = block;
    }
  }

  void settle() {
    device_.context()->runtime->synchronize_stream(native());
    bare_.check();
  }

 private:
  typename R::native_stream native() { return group_.compute().native(); }
  Bytes tensor(std::size_t bytes) {
    return Bytes(device_, ms::Shape{static_cast<std::int64_t>(bytes)});
  }
  void* allocate(std::size_t bytes) { return bare_.allocate(bytes, native()); }
  void release(void* block) { bare_.free(block, native()); }

  ms::Device<R> device_;
  ms::StreamGroup<R>& group_;
  Bare<R> bare_;
  Draws our_draws_;
  Draws bare_draws_;
  std::vector<Bytes> our_blocks_;
  std::vector<void*> bare_blocks_;
};

template <ms::Runtime R>
using Batch = void (Lane<R>::*)();

/// Reports what one thread waits for one operation, so that contention shows.
template <ms::Runtime R>
void run(benchmark::State& state,
         axes::ByteRange const& range,
         int threads,
         Batch<R> bare,
         Batch<R> ours) {
  ms::Device<R> const device;
  ms::StreamPool<R> const pool(device, {.groups = threads});
  std::vector<std::unique_ptr<Lane<R>>> lanes;
  for (int thread = 0; thread < threads; ++thread) {
    lanes.push_back(std::make_unique<Lane<R>>(device, pool[thread], range, thread));
  }
  auto const each = [&](Batch<R> batch) {
    return [&lanes, batch](int thread) { ((*lanes[static_cast<std::size_t>(thread)]).*batch)(); };
  };
  compare(state,
          threads,
          axes::kOperationsPerBatch,
          {.bare = each(bare), .ours = each(ours), .settle = [&] {
             for (auto const& lane : lanes) {
               lane->settle();
             }
           }});
}

template <ms::Runtime R>
void add_all() {
  auto const add_one = [](char const* pattern, Batch<R> bare, Batch<R> ours) {
    for (auto const& range : axes::kAllocations) {
      for (int const threads : axes::kAllocatingThreads) {
        auto const name = ms::text("allocator/", R::name, '/', pattern, '/', range.name);
        add(ms::text(name, "/threads:", threads), axes::kBatches, [=](benchmark::State& state) {
          run<R>(state, range, threads, bare, ours);
        });
      }
    }
  };
  add_one("pair", &Lane<R>::bare_pairs, &Lane<R>::our_pairs);
  add_one("churn", &Lane<R>::bare_churn, &Lane<R>::our_churn);
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>();
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>();
#endif
}

}  // namespace benchmarks
