// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contender.hpp"
#include "counting.hpp"
#include "tags.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace benchmarks::workloads {

/// Uses msstream as an application does: tensors, and issue(), which orders the work. A tensor that
/// is last read on another group is released there without any declaration.
template <ms::Runtime R>
class MsstreamContender final : public Contender {
  using Watched = Counting<R>;
  using Bytes = ms::Tensor<std::uint8_t, Watched>;
  using StreamRef = typename R::stream_ref;

 public:
  explicit MsstreamContender(Task const& task)
      : own_buffer_bytes_(task.own_buffer_bytes),
        device_(options(task)),
        pool_(device_, {.groups = task.streams}),
        tags_(task.busy),
        held_(task.blocks),
        ledgers_(static_cast<std::size_t>(task.streams)) {
    for (auto& tensor : held_) {
      if (own_buffer_bytes_ != 0) {
        tensor.emplace(device_, shape(own_buffer_bytes_));
      }
    }
  }
  ~MsstreamContender() override {
    try {
      synchronize();
    } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): synchronize() reports errors
    }
  }

  bool allocate_and_write(BlockUse const& use) override {
    auto& ledger = ledgers_[static_cast<std::size_t>(use.user)];
    auto const before = Watched::calls();
    ms::StreamScope<Watched> const scope(pool_[use.user]);
    auto& tensor = held_[use.block];
    if (own_buffer_bytes_ == 0) {
      try {
        ledger.time([&] { tensor.emplace(device_, shape(use.bytes)); });
      } catch (ms::OutOfMemory const&) {
        return false;
      }
    }
    ms::issue("write tags", ms::writes(*tensor), [this, block = tagged(use)](StreamRef stream) {
      tags_.write(stream, block);
    });
    ledger.by_allocator += Watched::calls() - before;
    return true;
  }
  void check_and_free(BlockUse const& use) override {
    auto& ledger = ledgers_[static_cast<std::size_t>(use.user)];
    auto const before = Watched::calls();
    ms::StreamScope<Watched> const scope(pool_[use.user]);
    auto& tensor = held_[use.block];
    ms::issue("check tags", ms::reads(*tensor), [this, block = tagged(use)](StreamRef stream) {
      tags_.check(stream, block);
    });
    auto const checked = Watched::calls();
    ledger.by_program += checked - before;
    if (own_buffer_bytes_ == 0) {
      ledger.time([&] { tensor.reset(); });
    }
    ledger.by_allocator += Watched::calls() - checked;
  }
  void synchronize() override {
    for (int group = 0; group < pool_.groups(); ++group) {
      pool_[group].synchronize();
    }
  }
  [[nodiscard]] Account account() const override {
    Account total;
    Calls by_allocator;
    Calls by_program;
    for (auto const& ledger : ledgers_) {
      total.allocator_ns += ledger.allocator_ns;
      by_allocator += ledger.by_allocator;
      by_program += ledger.by_program;
    }
    total.by_allocator = by_allocator;
    total.by_program = by_program;
    total.peak_reserved_bytes =
        own_buffer_bytes_ == 0 ? device_.memory_statistics().peak_reserved_bytes : 0;
    total.wrong_tags = tags_.wrong();
    return total;
  }

 private:
  /// The counters of one stream, and therefore of one thread at a time.
  struct alignas(128) Ledger {
    std::uint64_t allocator_ns = 0;
    Calls by_allocator;
    Calls by_program;

    template <class Action>
    void time(Action&& action) {
      auto const begin = std::chrono::steady_clock::now();
      action();
      auto const taken = std::chrono::steady_clock::now() - begin;
      allocator_ns += static_cast<std::uint64_t>(std::chrono::nanoseconds(taken).count());
    }
  };

  static ms::DeviceOptions<Watched> options(Task const& task) {
    ms::DeviceOptions<Watched> options;
    options.memory.limit_bytes = task.limit_bytes;
    return options;
  }
  static ms::Shape shape(std::size_t bytes) { return {static_cast<std::int64_t>(bytes)}; }
  [[nodiscard]] Tagged tagged(BlockUse const& use) const {
    auto const bytes = own_buffer_bytes_ == 0 ? use.bytes : std::min(use.bytes, own_buffer_bytes_);
    // Casts the address, which is aligned because blocks begin at multiples of 256 bytes.
    return {reinterpret_cast<std::uint64_t*>(held_[use.block]->data()),
            TagPlaces::of(bytes),
            tag_of(use.block)};
  }

  std::size_t own_buffer_bytes_;
  ms::Device<Watched> device_;
  ms::StreamPool<Watched> pool_;
  Tags<StreamRef> tags_;
  std::vector<std::optional<Bytes>> held_;
  std::vector<Ledger> ledgers_;
};

/// Adds two entrants to a comparison: msstream's allocator, and msstream on preallocated buffers.
template <ms::Runtime R>
void add_msstream(std::vector<Entrant>& entrants) {
  entrants.push_back({"msstream", true, "msstream, own buffers", [](Task task) {
                        task.own_buffer_bytes = 0;
                        return std::make_unique<MsstreamContender<R>>(task);
                      }});
  entrants.push_back({"msstream, own buffers", false, "", [](Task const& task) {
                        return std::make_unique<MsstreamContender<R>>(task);
                      }});
}

}  // namespace benchmarks::workloads
