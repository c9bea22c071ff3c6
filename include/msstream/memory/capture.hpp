// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/capture_memory.hpp>
#include <msstream/memory/pools.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/stream/stream_capture.hpp>

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

/// What a captured graph is and runs on. Goes when the last launch is over.
template <CapturingRuntime R>
struct CapturedWork {
  explicit CapturedWork(std::shared_ptr<StreamContext<R>> of) : context(std::move(of)) {}
  CapturedWork(CapturedWork const&) = delete;
  CapturedWork& operator=(CapturedWork const&) = delete;
  ~CapturedWork() {
    if (graph) {
      context->runtime->destroy_graph(*graph);
    }
  }

  std::shared_ptr<StreamContext<R>> context;
  std::optional<typename R::native_graph> graph;
  typename StreamCapture<R>::Twins groups;  ///< whose workspaces it uses
  std::shared_ptr<Pools<R>> pools;          ///< whose memory is free, and yet the graph's
};

/// Counts a reference to pinned memory as one by a graph that copies from it to the device and does
/// not write it. The reference comes before and goes after.
template <Runtime R>
class CapturedRead {
 public:
  explicit CapturedRead(Block<R>* block) noexcept : block_(block) {
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
  Block<R>* block_;
};

/// Memory that a graph uses and others may use, too.
template <Runtime R>
struct CapturedUse {
  CapturedUse(BlockRef<R> of, AccessMode with, bool is_from_host)
      : block(std::move(of)),
        mode(with),
        from_host(is_from_host),
        read(is_from_host && with == AccessMode::read ? &*block : nullptr) {}

  BlockRef<R> block;
  AccessMode mode;
  bool from_host;  ///< pinned memory that is copied to the device
  CapturedRead<R> read;
};

/// Throws std::logic_error for pinned memory that is copied to the device, that no captured step
/// writes, and that nobody but captured steps has any more: no replay will find anything else
/// there. `uncounted`: references by captures that have no CapturedRead yet.
template <class Use>
void require_owner(Use const& use, std::uint32_t uncounted = 0) {
  if (!use.from_host || use.mode != AccessMode::read) {
    return;
  }
  // Other steps may come and go meanwhile: both numbers of one moment are wanted.
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

/// While the guard lives, what the calling thread issues to a device is captured, through twins of
/// the groups, and the device memory that it allocates there comes from the capture's memory: what
/// is free in it is used by the graph, by others that share it, and nobody else's. Other threads go
/// on as before.
///
/// The uses of memory that was there before are kept apart from those by others, which go on, in
/// records of the capture: the graph's launches are what others order themselves after. Not
/// synchronised.
template <CapturingRuntime R>
class Capture {
 public:
  Capture(std::shared_ptr<StreamContext<R>> context, std::shared_ptr<CaptureMemory<R>> memory)
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
      } catch (...) {  // NOLINT(bugprone-empty-catch): of a capture that failed for want of memory
      }
    }
  }

  /// The calling thread's on a device; null: there is none.
  [[nodiscard]] static Capture* current(StreamContext<R> const& context) noexcept {
    Capture* capture = innermost_;
    while (capture != nullptr && capture->context_.get() != &context) {
      capture = capture->outer_;
    }
    return capture;
  }
  /// The same for who cannot do without.
  [[nodiscard]] static Capture& of_this_thread(StreamContext<R> const& context) {
    auto* const capture = current(context);
    if (capture == nullptr) {
      throw std::logic_error(
          "a group of a capture is used by a thread that does not capture, or after the capture");
    }
    return *capture;
  }

  /// Calls the function that is captured. What it throws because another thread ended the capture
  /// says so.
  template <class F>
  void if_not_ended(F&& function) {
    streams_.if_not_ended(std::forward<F>(function));
  }

  [[nodiscard]] StreamGroup<R>& twin_of(StreamGroup<R>& group) { return streams_.twin_of(group); }
  [[nodiscard]] BlockPool<R>& pool_of(StreamSlot<R> const& stream) const noexcept {
    return memory_->pools()->of(stream);
  }

  /// Where a captured use of the block is noted; null: nowhere, it is only read. Keeps the block,
  /// if it is not the capture's own.
  [[nodiscard]] AccessRecord* record_of(Block<R>& block, AccessMode mode) {
    if (memory_->is_of_open(block)) {
      return block.immutable ? nullptr : &block.record;
    }
    auto& use = uses_.try_emplace(&block, BlockRef<R>::share(block)).first->second;
    use.mode = std::max(use.mode, mode);
    return block.immutable ? nullptr : &use.record;
  }
  /// The group that last wrote the block in the capture, not its twin; null: none did.
  [[nodiscard]] StreamGroup<R>* writer_of(Block<R>& block) const {
    auto const use = uses_.find(&block);
    AccessRecord const* const record = memory_->is_of_open(block) ? &block.record
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
  /// Whether something that is captured uses it, so that the host cannot wait for it.
  [[nodiscard]] bool uses(Block<R>& block) const {
    return memory_->is_of_open(block) || uses_.contains(&block);
  }

  /// Notes that replays will copy from pinned memory that a captured operation reads.
  void copies_from_host(Block<R>& block) {
    if (auto const use = uses_.find(&block); use != uses_.end()) {
      use->second.from_host = true;
    }
  }

  struct Captured {
    std::shared_ptr<CapturedWork<R>> work;
    std::vector<CapturedUse<R>> uses;
  };
  /// Ends the capture. What still has owners of its memory counts as written. Throws as
  /// StreamCapture::end() does, and std::logic_error when pinned memory that is copied from has no
  /// owner left.
  [[nodiscard]] Captured end() {
    for (auto const& [block, use] : uses_) {
      require_owner(use, 1);
    }
    Captured captured{std::make_shared<CapturedWork<R>>(context_), {}};
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
    explicit Use(BlockRef<R> of) : block(std::move(of)) {}
    BlockRef<R> block;
    AccessMode mode = AccessMode::read;
    bool from_host = false;
    AccessRecord record;
  };

  static void refuse_second(StreamContext<R> const& context) {
    InsideWork::refuse("a capture");
    if (current(context) != nullptr) {
      throw std::logic_error("a capture inside another one on the same device");
    }
  }

  static inline constinit thread_local Capture* innermost_ = nullptr;

  std::shared_ptr<StreamContext<R>> context_;
  std::shared_ptr<CaptureMemory<R>> memory_;
  typename CaptureMemory<R>::Open open_;
  std::unordered_map<Block<R>*, Use> uses_;
  StreamCapture<R> streams_;  ///< goes first: its work uses the rest
  Capture* outer_;
  bool over_ = false;
};

MSSTREAM_COMPILED_ONCE(class Capture<DefaultRuntime>);

}  // namespace msstream::memory
