// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/native_work.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace msstream {

template <Runtime R>
struct PendingLaunch;

/// A type-erased reference to the work of one operation, valid during the call that takes it. The
/// code for ordering and launching is therefore compiled once for a runtime instead of for each
/// operation; the work's type adds only one call, and one move into a closure for launch threads.
template <Runtime R>
class WorkRef {
 public:
  using stream_ref = typename R::stream_ref;
  using native_stream = typename R::native_stream;

  /// Refers to `work(stream_ref)`, or to a NativeWork.
  template <class Work>
    requires(!std::same_as<std::remove_cvref_t<Work>, WorkRef>)
  WorkRef(Work&& work)  // NOLINT(google-explicit-constructor): any work is one
  noexcept
      : work_(const_cast<void*>(static_cast<void const*>(std::addressof(work)))),
        operations_(&kOperations<Work>) {}

  void operator()(stream_ref ref, native_stream native) const {
    operations_->call(work_, ref, native);
  }
  /// Returns a closure that launches the operation and owns the work, moved if the work was an
  /// rvalue, otherwise copied.
  [[nodiscard]] Closure closure(PendingLaunch<R> pending) const {
    return operations_->close(work_, std::move(pending));
  }

 private:
  struct Operations {
    void (*call)(void* work, stream_ref ref, native_stream native);
    Closure (*close)(void* work, PendingLaunch<R>&& pending);
  };

  template <class Work>
  static void call(void* work, stream_ref ref, native_stream native) {
    detail::call_work(*static_cast<std::remove_reference_t<Work>*>(work), ref, native);
  }
  template <class Work>
  static Closure close(void* work, PendingLaunch<R>&& pending) {
    return Closure([pending = std::move(pending),
                    own = std::decay_t<Work>(std::forward<Work>(
                        *static_cast<std::remove_reference_t<Work>*>(work)))]() mutable {
      pending.launch(WorkRef<R>(own));
    });
  }
  template <class Work>
  static constexpr Operations kOperations{&WorkRef::call<Work>, &WorkRef::close<Work>};

  void* work_;
  Operations const* operations_;
};

}  // namespace msstream
