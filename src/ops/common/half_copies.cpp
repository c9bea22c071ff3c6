// SPDX-License-Identifier: Apache-2.0
#include "ops/common/half_copies.hpp"

#include "memory/device/device_state.hpp"
#include "memory/device/open_capture.hpp"
#include "mixed/convert.hpp"

#include <msstream/ops/cast.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <unordered_map>

namespace msstream::ops::detail {

using msstream::detail::AccessRecord;
using msstream::detail::OpenCapture;
using msstream::detail::ReplayFollower;

namespace {

[[nodiscard]] OpenCapture* capture_of(AnyTensor const& tensor) {
  return OpenCapture::current(*tensor.device()->context);
}

[[nodiscard]] std::uint64_t write_count(AccessRecord& record) {
  std::lock_guard const guard(record.lock);
  return record.log.write_count();
}
[[nodiscard]] std::uint64_t writes_outside(AnyTensor const& tensor) {
  return write_count(tensor.block()->record);
}
/// Returns the number of captured writes of a tensor, whose use the capture notes.
[[nodiscard]] std::uint64_t writes_in(OpenCapture& capture,
                                      AnyTensor const& tensor,
                                      AccessMode mode = AccessMode::read) {
  auto* const record = capture.record_of(*tensor.block(), mode);
  return record == nullptr ? 0 : write_count(*record);  // null: immutable
}

}  // namespace

/// The copies that a graph reads or writes. All functions are called by the thread that captures or
/// replays the graph.
class FollowingCopies final : public ReplayFollower {
 public:
  using Copies = std::vector<std::shared_ptr<HalfCopy>>;

  /// Notes a copy that must be current when a replay begins.
  void require(std::shared_ptr<HalfCopy> copy) { add(required_, std::move(copy)); }
  /// Notes a copy that the graph writes.
  void note_write(std::shared_ptr<HalfCopy> copy) { add(written_, std::move(copy)); }

  void end_of_capture(OpenCapture& capture) override {
    std::erase_if(written_, [&](auto const& copy) { return !copy->is_current_in(capture); });
    counts_.resize(written_.size());
  }
  void before_replay(std::source_location issued_at) override {
    Copies stale;
    std::copy_if(required_.begin(), required_.end(), std::back_inserter(stale), [](auto& copy) {
      return !copy->is_current_outside();
    });
    HalfCopy::refresh(stale, issued_at);
    for (std::size_t i = 0; i < written_.size(); ++i) {
      counts_[i] = writes_outside(written_[i]->original_);
    }
  }
  void after_replay() noexcept override {
    for (std::size_t i = 0; i < written_.size(); ++i) {
      written_[i]->note_outside(counts_[i]);
    }
  }

 private:
  static void add(Copies& copies, std::shared_ptr<HalfCopy> copy) {
    if (std::find(copies.begin(), copies.end(), copy) == copies.end()) {
      copies.push_back(std::move(copy));
    }
  }

  Copies required_;
  Copies written_;                     ///< after the capture, those that each replay leaves current
  std::vector<std::uint64_t> counts_;  ///< of the writes of the tensors of `written_`
};

namespace {

/// The copies of the process by the memory of their tensors, and what follows the open captures.
/// Thread-safe; layers that different stream groups issue seldom wait for the same lock.
class AllCopies {
 public:
  static AllCopies& of_process() {
    static auto* const all = new AllCopies;  // outlives every static object that has a copy
    return *all;
  }

  void add(HalfCopy* copy) {
    auto const* const block = &*copy->original().block();
    auto& shard = shard_of(block);
    std::lock_guard const guard(shard.mutex);
    shard.copies[block].push_back(copy);
  }
  void remove(HalfCopy const* copy) noexcept {
    auto const* const block = &*copy->original().block();
    auto& shard = shard_of(block);
    std::lock_guard const guard(shard.mutex);
    auto const held = shard.copies.find(block);
    if (held != shard.copies.end() && std::erase(held->second, copy) > 0 && held->second.empty()) {
      shard.copies.erase(held);
    }
  }
  /// Returns the copy of a tensor that was made last, or null.
  [[nodiscard]] std::shared_ptr<HalfCopy> find(AnyTensor const& tensor, DType dtype) {
    auto const* const block = &*tensor.block();
    auto& shard = shard_of(block);
    std::lock_guard const guard(shard.mutex);
    auto const held = shard.copies.find(block);
    if (held == shard.copies.end()) {
      return nullptr;
    }
    auto const& copies = held->second;
    auto const found = std::find_if(copies.rbegin(), copies.rend(), [&](HalfCopy const* copy) {
      return copy->original().data() == tensor.data() &&
             copy->original().count() == tensor.count() && copy->tensor().dtype() == dtype;
    });
    // weak_from_this(), since the copy may be waiting to be removed.
    return found == copies.rend() ? nullptr : (*found)->weak_from_this().lock();
  }
  /// Returns what follows the replays of a capture.
  [[nodiscard]] std::shared_ptr<FollowingCopies> following(OpenCapture& capture) {
    std::lock_guard const guard(mutex_);
    std::erase_if(following_, [](auto const& other) { return other.second.expired(); });
    auto& known = following_[capture.number()];
    auto follower = known.lock();
    if (follower == nullptr) {
      follower = std::make_shared<FollowingCopies>();
      capture.follow(follower);
      known = follower;
    }
    return follower;
  }

 private:
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<memory::Block const*, std::vector<HalfCopy*>> copies;
  };

  [[nodiscard]] Shard& shard_of(memory::Block const* block) noexcept {
    constexpr std::uint64_t kGoldenRatio = 0x9E37'79B9'7F4A'7C15;  // spreads neighbouring addresses
    constexpr int kIndexBits = 6;
    static_assert(kShards == 1 << kIndexBits);
    return shards_[reinterpret_cast<std::uintptr_t>(block) * kGoldenRatio >> (64 - kIndexBits)];
  }

  static constexpr std::size_t kShards = 64;
  std::array<Shard, kShards> shards_;
  std::mutex mutex_;  ///< of `following_`
  std::unordered_map<std::uint64_t, std::weak_ptr<FollowingCopies>> following_;
};

}  // namespace

std::shared_ptr<HalfCopy> HalfCopy::make(Floats const& original, DType dtype) {
  if (capture_of(original.any()) != nullptr) {
    return nullptr;
  }
  auto copy = std::make_shared<HalfCopy>(Key(), original.any(), dtype);
  AllCopies::of_process().add(copy.get());
  return copy;
}

HalfCopy::HalfCopy(Key, AnyTensor original, DType dtype)
    : original_(std::move(original)), copy_(original_.device(), dtype, original_.shape()) {}

HalfCopy::~HalfCopy() {
  AllCopies::of_process().remove(this);
}

std::shared_ptr<HalfCopy> HalfCopy::current_of(AnyTensor const& tensor, DType dtype) {
  auto copy = AllCopies::of_process().find(tensor, dtype);
  return copy != nullptr && copy->is_current() ? copy : nullptr;
}

bool HalfCopy::is_current() {
  auto* const capture = capture_of(original_);
  if (capture == nullptr) {
    return is_current_outside();
  }
  if (is_current_in(*capture)) {
    return true;
  }
  if (writes_in(*capture, original_) > 0) {
    return false;
  }
  AllCopies::of_process().following(*capture)->require(shared_from_this());
  return true;
}

bool HalfCopy::is_current_outside() const {
  auto const count = writes_outside(original_);
  std::lock_guard const guard(mutex_);
  return current_at_ == count && !original_.block()->shared_outside;
}

bool HalfCopy::is_current_in(OpenCapture& capture) const {
  auto const count = writes_in(capture, original_);
  std::lock_guard const guard(mutex_);
  return capture_ == capture.number() && captured_at_ == count;
}

void HalfCopy::note_outside(std::uint64_t count) {
  if (writes_outside(original_) == count + 1) {
    std::lock_guard const guard(mutex_);
    current_at_ = count + 1;
  }
}

void HalfCopy::note_in(OpenCapture& capture, std::uint64_t count) {
  if (writes_in(capture, original_) == count + 1) {
    {
      std::lock_guard const guard(mutex_);
      capture_ = capture.number();
      captured_at_ = count + 1;
    }
    AllCopies::of_process().following(capture)->note_write(shared_from_this());
  }
}

void HalfCopy::refresh(std::vector<std::shared_ptr<HalfCopy>> const& copies,
                       std::source_location issued_at) {
  for (auto const dtype : {DType::bfloat16, DType::float16}) {
    std::vector<kernels::Conversion> conversions;
    std::vector<std::pair<HalfCopy*, std::uint64_t>> counts;
    std::vector<AnyTensor> originals;
    std::vector<AnyTensor> halves;
    for (auto const& copy : copies) {
      if (copy->copy_.dtype() == dtype) {
        counts.emplace_back(copy.get(), writes_outside(copy->original_));
        originals.push_back(copy->original_);
        halves.push_back(copy->copy_);
        conversions.push_back(
            {copy->original_.data(), copy->copy_.data(), copy->original_.count()});
      }
    }
    if (conversions.empty()) {
      continue;
    }
    auto read = reads(originals.front());
    auto written = writes(halves.front());
    for (std::size_t i = 1; i < originals.size(); ++i) {
      read.add(originals[i]);
      written.add(halves[i]);
    }
    issue(
        "cast",
        read,
        written,
        [conversions = std::move(conversions), dtype](auto stream) {
          kernels::convert(stream, conversions, DType::float32, dtype);
        },
        {},
        issued_at);
    for (auto const& [copy, count] : counts) {
      if (writes_outside(copy->original_) == count) {
        std::lock_guard const guard(copy->mutex_);
        copy->current_at_ = count;
      }
    }
  }
}

CopyWrites::CopyWrites(std::vector<std::shared_ptr<HalfCopy>> const& copies) {
  for (auto const& copy : copies) {
    if (copy != nullptr) {
      auto const& original = copy->original();
      auto* const capture = capture_of(original);
      copies_.emplace_back(copy,
                           capture == nullptr ? writes_outside(original)
                                              : writes_in(*capture, original, AccessMode::write));
    }
  }
}

void CopyWrites::issued() {
  for (auto const& [copy, count] : copies_) {
    auto* const capture = capture_of(copy->original());
    capture == nullptr ? copy->note_outside(count) : copy->note_in(*capture, count);
  }
}

std::vector<AnyTensor> halves_of(std::vector<AnyTensor> const& tensors,
                                 DType dtype,
                                 std::source_location issued_at) {
  std::vector<std::optional<AnyTensor>> found;
  std::vector<AnyTensor> others;
  for (auto const& tensor : tensors) {
    auto const copy = HalfCopy::current_of(tensor, dtype);
    found.push_back(copy == nullptr ? std::nullopt
                                    : std::optional(copy->tensor().reshaped(tensor.shape())));
    if (copy == nullptr) {
      others.push_back(tensor);
    }
  }
  auto const casts = cast(others, dtype, issued_at);
  std::vector<AnyTensor> halves;
  std::size_t next = 0;
  for (auto const& half : found) {
    halves.push_back(half ? *half : casts[next++]);
  }
  return halves;
}

}  // namespace msstream::ops::detail
