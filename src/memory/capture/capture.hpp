// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/capture/capture_memory.hpp"
#include "memory/pools/pools.hpp"
#include "stream/stream_capture.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::memory {

/// The graph of a capture and the resources that it uses. Destroyed when the last launch is
/// complete.
struct CapturedWork {
  explicit CapturedWork(std::shared_ptr<detail::StreamContext> of) : context(std::move(of)) {}
  CapturedWork(CapturedWork const&) = delete;
  CapturedWork& operator=(CapturedWork const&) = delete;
  ~CapturedWork() {
    if (graph) {
      context->runtime->destroy_graph(*graph);
    }
  }

  std::shared_ptr<detail::StreamContext> context;
  std::optional<detail::NativeGraph> graph;
  detail::StreamCapture::Twins groups;  ///< the twins, whose workspaces the graph uses
  std::shared_ptr<Pools> pools;         ///< the pools, whose free memory the graph uses
};

/// Counts a reference to pinned memory as one by a graph that copies from it to the device and does
/// not write it. The reference must be made before this object and dropped after it.
class CapturedRead {
 public:
  explicit CapturedRead(Block* block) noexcept : block_(block) {
    if (block_ != nullptr) {
      block_->captured_reads.fetch_add(1);
    }
  }
  CapturedRead(CapturedRead&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  CapturedRead& operator=(CapturedRead&&) = delete;
  ~CapturedRead() {
    if (block_ != nullptr) {
      block_->captured_reads.fetch_sub(1);
    }
  }

 private:
  Block* block_;
};

/// A graph's use of memory that work outside the graph may use, too.
struct CapturedUse {
  CapturedUse(BlockRef of, AccessMode with, bool is_from_host)
      : block(std::move(of)),
        mode(with),
        from_host(is_from_host),
        read(is_from_host && with == AccessMode::read ? &*block : nullptr) {}

  BlockRef block;
  AccessMode mode;
  bool from_host;  ///< pinned memory that is copied to the device
  CapturedRead read;
};

/// Throws std::logic_error for pinned memory that is copied to the device, that no captured step
/// writes, and that only captured steps reference: no replay would find new elements there.
/// `uncounted`: the number of references by captures without a CapturedRead.
template <class Use>
void require_owner(Use const& use, std::uint32_t uncounted = 0) {
  if (!use.from_host || use.mode != AccessMode::read) {
    return;
  }
  // Reads both counts until they belong to one moment, because other steps may come and go.
  auto reads = use.block->captured_reads.load();
  auto references = use.block->references.load();
  for (auto again = use.block->captured_reads.load(); again != reads;
       again = use.block->captured_reads.load()) {
    reads = again;
    references = use.block->references.load();
  }
  if (references <= reads + uncounted) {
    throw std::logic_error(
        "a captured step copies from a PinnedArray that nobody has any more: each replay would "
        "copy what it holds now; keep it, and write it before each replay, or make the tensor "
        "before the capture");
  }
}

/// A guard that captures the work that the calling thread issues to a device, through twins of the
/// groups. Device memory that the thread allocates meanwhile comes from the capture's memory, whose
/// free blocks are used only by the graph and by graphs that share that memory. Other threads are
/// not affected.
///
/// The capture notes its uses of memory from outside in records of its own, apart from the uses by
/// other threads, which are ordered after the launches of the graph. Not synchronised.
class Capture {
 public:
  Capture(std::shared_ptr<detail::StreamContext> context, std::shared_ptr<CaptureMemory> memory)
      : context_(std::move(context)),
        memory_(std::move(memory)),
        open_((refuse_second(*context_), *memory_), *context_),
        streams_(context_, memory_->libraries()),
        outer_(std::exchange(innermost_, this)) {}
  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;
  ~Capture() {
    innermost_ = outer_;
    if (!over_) {
      try {
        static_cast<void>(memory_->keep_survivors());
      } catch (...) {  // NOLINT(bugprone-empty-catch): the capture failed for lack of memory
      }
    }
  }

  /// Returns the calling thread's capture on the device of `context`. Null if there is none.
  [[nodiscard]] static Capture* current(detail::StreamContext const& context) noexcept {
    Capture* capture = innermost_;
    while (capture != nullptr && capture->context_.get() != &context) {
      capture = capture->outer_;
    }
    return capture;
  }
  /// Like current(), but throws std::logic_error if the thread is not capturing.
  [[nodiscard]] static Capture& of_this_thread(detail::StreamContext const& context) {
    auto* const capture = current(context);
    if (capture == nullptr) {
      throw std::logic_error(
          "a group of a capture is used by a thread that does not capture, or after the capture");
    }
    return *capture;
  }

  /// Calls the captured function. If it fails because another thread ended the capture, the error
  /// says so.
  template <class F>
  void if_not_ended(F&& function) {
    streams_.if_not_ended(std::forward<F>(function));
  }

  [[nodiscard]] detail::StreamGroup& twin_of(detail::StreamGroup& group) {
    return streams_.twin_of(group);
  }
  [[nodiscard]] BlockPool& pool_of(detail::StreamSlot const& stream) const noexcept {
    return memory_->pools()->of(stream);
  }

  /// Returns the record for a captured use of the block, or null for an immutable block, whose
  /// reads are not noted. Keeps the block alive, unless the capture has made it.
  [[nodiscard]] detail::AccessRecord* record_of(Block& block, AccessMode mode) {
    if (memory_->is_of_open(block)) {
      return block.immutable ? nullptr : &block.record;
    }
    auto& use = uses_.try_emplace(&block, BlockRef::share(block)).first->second;
    use.mode = std::max(use.mode, mode);
    return block.immutable ? nullptr : &use.record;
  }
  /// Returns the group, not its twin, that last wrote the block in the capture. Null if none did.
  [[nodiscard]] detail::StreamGroup* writer_of(Block& block) const {
    auto const use = uses_.find(&block);
    detail::AccessRecord const* const record = memory_->is_of_open(block) ? &block.record
                                               : use != uses_.end()       ? &use->second.record
                                                                          : nullptr;
    if (record != nullptr) {
      for (auto const& write : record->log.writes()) {
        if (auto* const group = streams_.group_of(write.stream)) {
          return group;
        }
      }
    }
    return nullptr;
  }
  /// Whether captured work uses the block, so that the host cannot wait for it.
  [[nodiscard]] bool uses(Block& block) const {
    return memory_->is_of_open(block) || uses_.contains(&block);
  }

  /// Notes that replays will copy from pinned memory that a captured operation reads.
  void copies_from_host(Block& block) {
    if (auto const use = uses_.find(&block); use != uses_.end()) {
      use->second.from_host = true;
    }
  }

  struct Captured {
    std::shared_ptr<CapturedWork> work;
    std::vector<CapturedUse> uses;
  };
  /// Ends the capture. Blocks made in it that still have owners count as written. Throws like
  /// StreamCapture::end(), and std::logic_error if pinned memory that is copied from has no owner
  /// left.
  [[nodiscard]] Captured end() {
    for (auto const& [block, use] : uses_) {
      require_owner(use, 1);
    }
    Captured captured{std::make_shared<CapturedWork>(context_), {}};
    captured.work->graph = streams_.end();
    captured.work->groups = streams_.twins();
    captured.work->pools = memory_->pools();
    for (auto const& [block, use] : uses_) {
      captured.uses.emplace_back(use.block, use.mode, use.from_host);
    }
    for (auto& block : memory_->keep_survivors()) {
      captured.uses.emplace_back(std::move(block), AccessMode::write, false);
    }
    over_ = true;
    return captured;
  }

 private:
  struct Use {
    explicit Use(BlockRef of) : block(std::move(of)) {}
    BlockRef block;
    AccessMode mode = AccessMode::read;
    bool from_host = false;
    detail::AccessRecord record;
  };

  static void refuse_second(detail::StreamContext const& context) {
    detail::InsideWork::refuse("a capture");
    if (current(context) != nullptr) {
      throw std::logic_error("a capture inside another one on the same device");
    }
  }

  /// The calling thread's innermost capture, or null.
  static inline constinit thread_local Capture* innermost_ = nullptr;

  std::shared_ptr<detail::StreamContext> context_;
  std::shared_ptr<CaptureMemory> memory_;
  CaptureMemory::Open open_;
  std::unordered_map<Block*, Use> uses_;
  detail::StreamCapture streams_;  ///< destroyed first, because its work uses the other members
  Capture* outer_;
  bool over_ = false;
};

}  // namespace msstream::memory
