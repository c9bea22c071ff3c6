// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::detail {
class OpenCapture;
}  // namespace msstream::detail

namespace msstream::ops::detail {

class FollowingCopies;

/// A copy in half precision of a float32 tensor, which the operation that writes the tensor writes
/// as well, so that no other operation has to cast it.
///
/// States: current, or not. A copy is current if the dependency tracker has noted no write of the
/// tensor's memory since the operation that wrote both. So a write after which the copy would be
/// wrong is missed only if no operation waits for it either. Where other libraries have had write
/// access to the memory, the copy is never current outside of captures.
///
/// In a capture, the writes that are captured count. A graph that reads a copy before it writes the
/// tensor needs the copy to be current at each replay: copies that are not are cast before. After a
/// replay, copies are current that the graph has written along with the last write of their
/// tensors.
///
/// Owns the copy, and shares the tensor. Thread-safe: a mutex guards the marks, and the records of
/// the memory have locks of their own. Two threads that write a tensor at once make the copy not
/// current, since then neither thread's write is the only one.
class HalfCopy : public std::enable_shared_from_this<HalfCopy> {
  struct Key {};

 public:
  /// Makes a copy, not yet current, and lets halves_of() find it. Returns null in a capture, in
  /// which nothing that outlives the graph can be made.
  [[nodiscard]] static std::shared_ptr<HalfCopy> make(Floats const& original, DType dtype);
  HalfCopy(Key, AnyTensor original, DType dtype);
  HalfCopy(HalfCopy const&) = delete;
  HalfCopy& operator=(HalfCopy const&) = delete;
  ~HalfCopy();

  [[nodiscard]] AnyTensor const& original() const noexcept { return original_; }
  [[nodiscard]] AnyTensor const& tensor() const noexcept { return copy_; }

 private:
  friend class CopyWrites;
  friend class FollowingCopies;
  friend std::vector<AnyTensor> halves_of(std::vector<AnyTensor> const& tensors,
                                          DType dtype,
                                          std::source_location issued_at);

  /// Returns the copy of a tensor of this type that is current for the next operation of the
  /// calling thread, or null.
  [[nodiscard]] static std::shared_ptr<HalfCopy> current_of(AnyTensor const& tensor, DType dtype);
  [[nodiscard]] bool is_current();
  [[nodiscard]] bool is_current_outside() const;
  [[nodiscard]] bool is_current_in(msstream::detail::OpenCapture& capture) const;
  /// Notes that the only write since `count` writes of the tensor has written the copy as well.
  void note_outside(std::uint64_t count);
  void note_in(msstream::detail::OpenCapture& capture, std::uint64_t count);
  /// Casts tensors to their copies.
  static void refresh(std::vector<std::shared_ptr<HalfCopy>> const& copies,
                      std::source_location issued_at);

  AnyTensor original_;
  AnyTensor copy_;
  mutable std::mutex mutex_;
  /// The number of the writes of the tensor, outside of captures, of which the last one wrote the
  /// copy as well.
  std::optional<std::uint64_t> current_at_;
  std::uint64_t capture_ = 0;      ///< OpenCapture::number() of the last one that wrote the copy
  std::uint64_t captured_at_ = 0;  ///< the number of captured writes, as current_at_
};

/// An operation that writes tensors and their copies: made before it is issued.
class CopyWrites {
 public:
  /// Ignores null pointers.
  explicit CopyWrites(std::vector<std::shared_ptr<HalfCopy>> const& copies);
  /// Notes that the operation has been issued, by the calling thread.
  void issued();

 private:
  /// The copies, with the number of writes of their tensors before the operation.
  std::vector<std::pair<std::shared_ptr<HalfCopy>, std::uint64_t>> copies_;
};

/// Returns float32 tensors in half precision: the copies of those that have a current one, which
/// are only to be read, and of all others a cast. One launch, or none.
[[nodiscard]] std::vector<AnyTensor> halves_of(std::vector<AnyTensor> const& tensors,
                                               DType dtype,
                                               std::source_location issued_at);

}  // namespace msstream::ops::detail
