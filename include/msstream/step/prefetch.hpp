// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/publish.hpp>

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream {

namespace detail {

struct PrefetchOptions {
  int ahead = 1;  ///< batches whose uploads are issued before they are requested
};

[[noreturn]] void throw_bad_ahead(int ahead);

}  // namespace detail

/// Keeps the uploads of the next batches in flight while one batch is used.
///
///     Prefetch batches(pool[0], [&]() -> std::optional<Batch> {
///       return reader.next() ? std::optional(upload(device, reader)) : std::nullopt;
///     });
///     while (auto batch = batches.next()) {
///       train(*batch);
///     }
///
/// `upload` issues the copies of one batch to the group and returns the tensors that they write. If
/// there are no more batches, `upload` returns null, and is not called again. Work on a batch waits
/// for the copies of that batch only, not for those of later batches that are issued before the
/// work. Not synchronised.
template <Runtime R, class Batch>
class Prefetch {
 public:
  using Options = detail::PrefetchOptions;
  /// Issues the copies of the next batch, and returns it; null after the last one.
  using Upload = std::function<std::optional<Batch>()>;

  /// Makes a prefetcher, and issues the uploads of the first `options.ahead` batches. Throws
  /// std::invalid_argument unless `ahead` is at least 1.
  Prefetch(StreamGroup<R> const& group,
           Upload upload,
           Options const& options = {},
           std::source_location issued_at = std::source_location::current())
      : group_(group), upload_(std::move(upload)), ahead_(static_cast<std::size_t>(options.ahead)) {
    if (options.ahead < 1) [[unlikely]] {
      detail::throw_bad_ahead(options.ahead);
    }
    fill(issued_at);
  }
  Prefetch(Prefetch const&) = delete;
  Prefetch& operator=(Prefetch const&) = delete;

  /// Returns the next batch, or null after the last one. The upload of one more batch is issued
  /// before the call returns. An exception of `upload` is thrown instead of its batch; the next
  /// call continues with the batch after it. Does not block the host unless `upload` does.
  [[nodiscard]] std::optional<Batch> next(
      std::source_location issued_at = std::source_location::current()) {
    fill(issued_at);
    if (uploaded_.empty()) {
      if (failure_ != nullptr) {
        std::rethrow_exception(std::exchange(failure_, nullptr));
      }
      return std::nullopt;
    }
    std::optional<Batch> batch(std::move(uploaded_.front()));
    uploaded_.pop_front();
    fill(issued_at);
    return batch;
  }

 private:
  void fill(std::source_location issued_at) {
    while (uploaded_.size() < ahead_ && !at_end_ && failure_ == nullptr) {
      try {
        issue_published(
            group_,
            [this] {
              auto batch = upload_();
              at_end_ = !batch;
              if (batch) {
                uploaded_.push_back(std::move(*batch));
              }
            },
            issued_at);
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
  }

  StreamGroup<R> group_;
  Upload upload_;
  std::size_t ahead_;
  std::deque<Batch> uploaded_;
  bool at_end_ = false;
  std::exception_ptr failure_;  ///< of the upload after those in uploaded_
};

template <Runtime R, class Upload>
Prefetch(StreamGroup<R> const&, Upload, detail::PrefetchOptions = {})
    -> Prefetch<R, typename std::invoke_result_t<Upload&>::value_type>;

}  // namespace msstream
