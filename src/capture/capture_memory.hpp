// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capture/stream_capture.hpp"
#include "memory/pools/pools.hpp"
#include "stream/access.hpp"

#include <msstream/base/detail/require.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The memory of captures whose graphs run one after the other: memory pools, whose free memory
/// each graph uses as if it were alone, and the library handles of the captured stream groups.
///
/// A block that outlives its capture belongs to the block's owners and to the capture's graph.
/// Other graphs do not know of its uses, so the block is not reused as long as the CaptureMemory
/// lives.
///
/// States: free, or open while there is a capture. Several threads may use the memory, but a second
/// capture at the same time is refused.
class CaptureMemory {
 public:
  /// Takes new `pools` on the device of the context. `lender` is the group whose library handles
  /// its twin uses: see StreamCapture::Libraries.
  CaptureMemory(std::shared_ptr<StreamContext> context,
                std::shared_ptr<memory::Pools> pools,
                std::shared_ptr<StreamGroup> lender)
      : context_(std::move(context)), pools_(std::move(pools)), libraries_(std::move(lender)) {}
  CaptureMemory(CaptureMemory const&) = delete;
  CaptureMemory& operator=(CaptureMemory const&) = delete;

  /// A guard that opens the memory for one capture. Throws std::logic_error if the memory is open
  /// already, and std::invalid_argument for a capture on another device.
  class Open {
   public:
    Open(CaptureMemory& memory, StreamContext const& captured) : memory_(memory) {
      require(memory_.context_.get() == &captured,
              "a step is captured on another device than that of its StepMemory");
      if (memory_.is_open_.exchange(true)) {
        throw std::logic_error("a step is captured in memory in which another one is captured now");
      }
    }
    Open(Open const&) = delete;
    Open& operator=(Open const&) = delete;
    ~Open() { memory_.is_open_.store(memory_.is_lost_); }

   private:
    CaptureMemory& memory_;
  };

  [[nodiscard]] std::shared_ptr<memory::Pools> const& pools() const noexcept { return pools_; }
  [[nodiscard]] StreamCapture::Libraries& libraries() noexcept { return libraries_; }

  /// Returns whether the block was allocated in the capture that is open.
  [[nodiscard]] bool is_of_open(memory::Block const& block) const {
    return pools_->own(block) && !kept_.contains(&block);
  }
  /// Returns the blocks of the ending capture that are still in use, and keeps them from reuse.
  [[nodiscard]] std::vector<memory::BlockRef> keep_survivors() {
    std::vector<memory::BlockRef> survivors;
    pools_->for_each([&](memory::BlockPool const& pool) {
      for (auto& block : pool.blocks_in_use()) {
        if (!kept_.contains(&*block)) {
          survivors.push_back(std::move(block));
        }
      }
    });
    try {
      for (auto const& block : survivors) {
        kept_.emplace(&*block, block);
      }
    } catch (...) {  // otherwise the next capture would take a block that was not kept for one of
                     // its own
      is_lost_ = true;
      throw;
    }
    return survivors;
  }

  /// The access record that each launch of a graph writes, so that no two of the graphs run at the
  /// same time.
  AccessRecord launches;

 private:
  std::shared_ptr<StreamContext> context_;
  std::shared_ptr<memory::Pools> pools_;
  StreamCapture::Libraries libraries_;
  std::unordered_map<memory::Block const*, memory::BlockRef> kept_;
  std::atomic<bool> is_open_{false};
  bool is_lost_ = false;  ///< no more captures are possible, because the host had no memory to note
                          ///< the blocks that must be kept
};

}  // namespace msstream::detail
