// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capture/capture_memory.hpp"
#include "capture/stream_capture.hpp"
#include "memory/device/open_capture.hpp"
#include "stream/inside_work.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::detail {

/// A guard that captures the work that the calling thread issues to a device: each stream group is
/// replaced by a twin whose streams are captured. Device memory that the thread allocates meanwhile
/// comes from the capture's memory, whose free blocks are used only by the graph and by graphs that
/// share that memory. Other threads are not affected.
///
/// Captured uses of memory from outside the capture are noted in records of the capture, separate
/// from the uses by other threads, which are ordered after the launches of the graph. Not
/// synchronised.
class Capture final : public OpenCapture {
 public:
  /// The graph of a capture and the resources that it uses. Destroyed when the last launch of the
  /// graph is complete.
  class Graph {
   public:
    /// Ends the capture of the streams and takes over the resulting graph.
    explicit Graph(Capture& capture)
        : context_(capture.context_),
          twins_(capture.streams_.twins()),
          pools_(capture.memory_->pools()),
          native_(capture.streams_.end()),
          kept_(std::move(capture.kept_)) {}
    Graph(Graph const&) = delete;
    Graph& operator=(Graph const&) = delete;
    ~Graph() {
      if (!context_->home.is_left()) {
        context_->runtime->destroy_graph(native_);
      }
    }

    [[nodiscard]] NativeGraph native() const noexcept { return native_; }

   private:
    std::shared_ptr<StreamContext> context_;
    StreamCapture::Twins twins_;            ///< the graph uses the twins' workspaces
    std::shared_ptr<memory::Pools> pools_;  ///< the graph uses the pools' free memory
    NativeGraph native_;
    std::vector<std::shared_ptr<void const>> kept_;  ///< see OpenCapture::keep_with_graph()
  };

  /// A graph's use of memory that work outside the graph may use, too.
  class Use {
   public:
    explicit Use(memory::BlockRef of, AccessMode with = AccessMode::read)
        : block(std::move(of)), mode(with) {}
    Use(Use&& other) noexcept
        : block(std::move(other.block)),
          mode(other.mode),
          from_host(other.from_host),
          frozen_at(other.frozen_at),
          is_counted_(std::exchange(other.is_counted_, false)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (is_counted_) {
        block->captured_reads.fetch_sub(1);
      }
    }

    /// If the graph copies from the block to the device and does not write the block, counts this
    /// reference in Block::captured_reads. Called once the mode is final.
    void count() noexcept {
      if (is_copied_from()) {
        block->captured_reads.fetch_add(1);
        is_counted_ = true;
      }
    }
    /// Throws std::logic_error if the block is pinned memory that captured steps only copy to the
    /// device, and only captured steps still reference the block: no code could write new elements
    /// before a replay.
    void require_owner() const {
      if (!is_copied_from()) {
        return;
      }
      // Reads `references` between two equal reads of `captured_reads`, so that both counts belong
      // to the same time although other steps may be made or destroyed meanwhile.
      auto reads = block->captured_reads.load();
      auto references = block->references.load();
      for (auto again = block->captured_reads.load(); again != reads;
           again = block->captured_reads.load()) {
        reads = again;
        references = block->references.load();
      }
      if (references <= reads + (is_counted_ ? 0 : 1)) {
        throw std::logic_error(
            "a captured step copies from a PinnedArray that nobody has any more: each replay would "
            "copy what it holds now; keep it, and write it before each replay, or make the tensor "
            "before the capture");
      }
    }

    /// Throws std::logic_error if the graph writes memory that has been frozen since the capture,
    /// or used memory while it was frozen, as no parameter to be trained, that is frozen no more.
    void require_as_captured() const {
      if (block->immutable) {
        if (mode == AccessMode::write) {
          throw std::logic_error(fmt::format(
              "a captured step writes {}, which has become immutable; capture the step again",
              name_of_block()));
        }
      } else if (frozen_at && *frozen_at != block->unfreezes) {
        throw std::logic_error(fmt::format(
            "a captured step used {} while it was frozen, so that it does not train it, and it is "
            "frozen no more; capture the step again",
            name_of_block()));
      }
    }

    memory::BlockRef block;
    AccessMode mode;
    bool from_host = false;  ///< pinned memory that is copied to the device
    /// Block::unfreezes at the capture, if the block was immutable.
    std::optional<std::uint32_t> frozen_at = {};

   private:
    [[nodiscard]] bool is_copied_from() const noexcept {
      return from_host && mode == AccessMode::read;
    }
    [[nodiscard]] std::string name_of_block() const {
      std::lock_guard const guard(block->record.lock);
      return block->name != nullptr ? fmt::format("\"{}\"", *block->name) : "a tensor";
    }

    bool is_counted_ = false;  ///< the reference is one of Block::captured_reads
  };

  /// The results of a capture: the graph, its uses of memory from outside, and its checks.
  struct Captured {
    std::shared_ptr<Graph> graph;
    std::vector<Use> uses;
    std::vector<std::function<void()>> checks;  ///< to be called before each replay
    std::vector<std::shared_ptr<ReplayFollower>> followers = {};
  };

  Capture(std::shared_ptr<StreamContext> context, std::shared_ptr<CaptureMemory> memory)
      : OpenCapture(*context),
        context_(std::move(context)),
        memory_(std::move(memory)),
        open_((refuse_second(*context_), *memory_), *context_),
        streams_(context_, memory_->libraries()) {
    enter();
  }
  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;
  ~Capture() {
    leave();
    if (!over_) {
      try {
        for (auto const& block : memory_->keep_survivors()) {
          block->lost = true;
          block->immutable = true;
        }
      } catch (...) {  // NOLINT(bugprone-empty-catch): the capture failed for lack of memory
      }
    }
  }

  /// Calls the captured function. If the function fails because another thread ended the capture,
  /// throws a std::runtime_error that says so.
  template <class F>
  void if_not_ended(F&& function) {
    streams_.if_not_ended(std::forward<F>(function));
  }
  /// Ends the capture, and returns its graph and its uses of memory from outside. Blocks made in
  /// the capture that still have owners count as written. Throws what StreamCapture::end() throws,
  /// and std::logic_error if pinned memory that is copied to the device has no owner left, or if
  /// something is unfinished, such as a TensorHolder that still holds a tensor on a captured
  /// stream.
  [[nodiscard]] Captured end() {
    refuse_unfinished();
    for (auto const& [block, noted] : noted_) {
      noted.use.require_owner();
    }
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      followers_[i]->end_of_capture(*this);
    }
    Captured captured{
        std::make_shared<Graph>(*this), {}, std::move(checks_), std::move(followers_)};
    for (auto& [block, noted] : noted_) {
      captured.uses.push_back(std::move(noted.use));
      captured.uses.back().count();
    }
    for (auto& block : memory_->keep_survivors()) {
      captured.uses.emplace_back(std::move(block), AccessMode::write);
    }
    over_ = true;
    return captured;
  }

  [[nodiscard]] StreamGroup& twin_of(StreamGroup& group) override {
    return streams_.twin_of(group);
  }
  [[nodiscard]] memory::BlockPool& pool_of(StreamSlot const& stream) const noexcept override {
    return memory_->pools()->of(stream);
  }
  [[nodiscard]] AccessRecord* record_of(memory::Block& block, AccessMode mode) override {
    if (memory_->is_of_open(block)) {
      return block.immutable ? nullptr : &block.record;
    }
    auto& noted = noted_.try_emplace(&block, memory::BlockRef::share(block)).first->second;
    noted.use.mode = std::max(noted.use.mode, mode);
    if (block.immutable) {
      noted.use.frozen_at = block.unfreezes;
      return nullptr;
    }
    return &noted.record;
  }
  [[nodiscard]] StreamGroup* writer_of(memory::Block& block) const override {
    auto const noted = noted_.find(&block);
    AccessRecord const* const record = memory_->is_of_open(block) ? &block.record
                                       : noted != noted_.end()    ? &noted->second.record
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
  [[nodiscard]] bool uses(memory::Block& block) const override {
    return memory_->is_of_open(block) || noted_.contains(&block);
  }
  void copies_from_host(memory::Block& block) override {
    if (auto const noted = noted_.find(&block); noted != noted_.end()) {
      noted->second.use.from_host = true;
    }
  }
  void add_unfinished(std::weak_ptr<std::string const> message) override {
    std::erase_if(unfinished_, [](auto const& other) { return other.expired(); });
    unfinished_.push_back(std::move(message));
  }
  void before_replay(std::function<void()> check) override { checks_.push_back(std::move(check)); }
  void follow(std::shared_ptr<ReplayFollower> follower) override {
    followers_.push_back(std::move(follower));
  }
  void keep_with_graph(std::shared_ptr<void const> object) override {
    if (std::find(kept_.begin(), kept_.end(), object) == kept_.end()) {
      kept_.push_back(std::move(object));
    }
  }

 private:
  /// A captured use of memory from outside the capture, with the record of the captured operations
  /// that use the memory.
  struct Noted {
    explicit Noted(memory::BlockRef block) : use(std::move(block)) {}
    Use use;
    AccessRecord record;
  };

  static void refuse_second(StreamContext const& context) {
    InsideWork::refuse("a capture");
    if (current(context) != nullptr) {
      throw std::logic_error("a capture inside another one on the same device");
    }
  }
  void refuse_unfinished() const {
    for (auto const& unfinished : unfinished_) {
      if (auto const message = unfinished.lock()) {
        throw std::logic_error(*message);
      }
    }
  }

  std::shared_ptr<StreamContext> context_;
  std::shared_ptr<CaptureMemory> memory_;
  CaptureMemory::Open open_;
  std::unordered_map<memory::Block*, Noted> noted_;
  std::vector<std::weak_ptr<std::string const>> unfinished_;
  std::vector<std::function<void()>> checks_;
  std::vector<std::shared_ptr<ReplayFollower>> followers_;
  std::vector<std::shared_ptr<void const>> kept_;
  StreamCapture streams_;  ///< destroyed first, because its work uses the other members
  bool over_ = false;
};

}  // namespace msstream::detail
