// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/stream/stream_kind.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace msstream {

template <class F>
struct NativeWork;

}  // namespace msstream

namespace msstream::detail {

class StreamGroup;
class WorkRef;

/// The target of an operation's launch: a stream, its runtime, and the library handles of its
/// group.
struct LaunchTarget {
  Backend& runtime;
  NativeStream stream;
  NativeLibraries libraries;
};

/// An operation that is submitted and not yet launched, without its work. If the object is
/// destroyed before launch(), it tells an observing runtime that the operation is given up.
class PendingLaunch {
 public:
  PendingLaunch(StreamGroup& group,
                Backend& runtime,
                char const* name,
                std::unique_ptr<std::string> span_name,
                OperationHandle observed,
                StreamKind kind,
                NativeLibraries libraries) noexcept
      : group_(&group),
        runtime_(&runtime),
        name_(name),
        span_name_(std::move(span_name)),
        observed_(std::move(observed)),
        libraries_(libraries),
        kind_(kind) {}
  PendingLaunch(PendingLaunch&&) noexcept = default;  // a moved-from object holds no operation
  PendingLaunch& operator=(PendingLaunch&&) = delete;
  ~PendingLaunch() {
    if (observed_ != nullptr) [[unlikely]] {
      runtime_->operation_given_up(observed_);
    }
  }

  /// Launches the operation by calling `work`. Call launch() once for each operation, in the order
  /// of the operations' numbers on the stream.
  void launch(WorkRef work);

 private:
  friend class StreamGroup;

  StreamGroup* group_;  ///< gone when an operation is given up on a launch thread
  Backend* runtime_;
  char const* name_;
  std::unique_ptr<std::string> span_name_;  ///< null if no span is recorded
  OperationHandle observed_;                ///< null if no runtime observes, or once it is launched
  NativeLibraries libraries_;
  StreamKind kind_;
};

/// Calls `work(stream)` with the HostStream or the CudaStream of the runtime's stream. Throws
/// std::logic_error if the runtime's streams are of another type, or are CUDA streams in a build
/// without CUDA.
template <class Work>
decltype(auto) call_with_stream_of(Backend& runtime,
                                   NativeStream stream,
                                   NativeLibraries libraries,
                                   Work&& work) {
#if MSSTREAM_CUDA
  if (runtime.traits.ref_kind == StreamRefKind::cuda) {
    return work(runtime.cuda_ref(stream, libraries));
  }
#endif
  return work(runtime.host_ref(stream, libraries));
}

/// A type-erased reference to the work of one operation, valid during the call that takes it.
/// Because of the erasure, the code for ordering and launching is compiled once; each type of work
/// adds only one call, and one move into a closure for launch threads.
class WorkRef {
 public:
  /// Makes a reference to work that is called as `work(stream_ref)`, or to a NativeWork, for
  /// devices of runtime R. If R is AnyRuntime, the work must accept a HostStream as well as a
  /// CudaStream.
  template <Runtime R, class Work>
  [[nodiscard]] static WorkRef of(Work&& work) noexcept {
    return WorkRef(work, operations<ForRuntime<R>, Work>);
  }
  /// Makes a reference to work that is called as `work(NativeStream)`, and calls the runtime
  /// itself.
  template <class Work>
  [[nodiscard]] static WorkRef native(Work&& work) noexcept {
    return WorkRef(work, operations<ForNative, Work>);
  }

  void operator()(LaunchTarget const& target) const { operations_->call(work_, target); }
  /// Returns a closure that launches the operation and owns the work, moved if the work was an
  /// rvalue, otherwise copied.
  [[nodiscard]] Closure closure(PendingLaunch pending) const {
    return operations_->close(work_, std::move(pending));
  }

 private:
  struct Operations {
    void (*call)(void* work, LaunchTarget const& target);
    Closure (*close)(void* work, PendingLaunch&& pending);
  };

  template <Runtime R>
  struct ForRuntime {
    template <class Work>
    static void call(Work& work, LaunchTarget const& target) {
      if constexpr (std::same_as<R, AnyRuntime>) {
        call_with_stream_of(target.runtime, target.stream, target.libraries, work);
      } else {
        work(ref_of<R>(target.runtime, target.stream, target.libraries));
      }
    }
    template <class F>
    static void call(NativeWork<F>& work, LaunchTarget const& target) {
      work.put_on(static_cast<typename R::native_stream>(target.stream));
    }
  };
  struct ForNative {
    template <class Work>
    static void call(Work& work, LaunchTarget const& target) {
      work(target.stream);
    }
  };
  template <class For, class Work>
  static void call_as(void* work, LaunchTarget const& target) {
    For::call(*static_cast<std::remove_reference_t<Work>*>(work), target);
  }
  template <class For, class Work>
  static Closure close_as(void* work, PendingLaunch&& pending) {
    return Closure([pending = std::move(pending),
                    own = std::decay_t<Work>(std::forward<Work>(
                        *static_cast<std::remove_reference_t<Work>*>(work)))]() mutable {
      pending.launch(WorkRef(own, operations<For, std::decay_t<Work>&>));
    });
  }
  template <class For, class Work>
  static constexpr Operations operations{&WorkRef::call_as<For, Work>,
                                         &WorkRef::close_as<For, Work>};

  template <class Work>
  WorkRef(Work& work, Operations const& of_work) noexcept
      : work_(const_cast<void*>(static_cast<void const*>(std::addressof(work)))),
        operations_(&of_work) {}

  void* work_;
  Operations const* operations_;
};

}  // namespace msstream::detail
